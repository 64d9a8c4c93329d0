-- caller: put_jobs, for jobs that are there
-- guard: the version that the change was judged by ($15); the rows are locked
-- index: jobs_pkey
UPDATE jobs AS j
SET version = w.version, state = w.state, plan = w.plan, firing = w.firing, change_seq = w.change_seq, name = w.name,
    tags = w.tags, effective_at = w.effective_at, paused_until = w.paused_until, definition = w.definition
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::text[], $7::text[], $8::int8[], $9::text[],
            $10::text[], $11::int8[], $12::int8[], $13::int8[], $14::text[], $15::int8[])
     AS w (id, shard, tenant, version, state, plan, firing, change_seq, name, tags, created_at, effective_at, paused_until,
           definition, judged_by)
WHERE j.id = w.id AND j.tenant = w.tenant AND j.version = w.judged_by
