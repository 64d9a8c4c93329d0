-- caller: put_jobs, for jobs that are there
-- guard: the version that the change was judged by ($17); the rows are locked
-- index: jobs_pkey
UPDATE jobs AS j
SET version = w.version, state = w.state, next_fire_at = w.next_fire_at, fires_left = w.fires_left, plan = w.plan,
    firing = w.firing, change_seq = w.change_seq, name = w.name, tags = w.tags, effective_at = w.effective_at,
    paused_until = w.paused_until, definition = w.definition
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::text[], $9::text[],
            $10::int8[], $11::text[], $12::text[], $13::int8[], $14::int8[], $15::int8[], $16::text[], $17::int8[])
     AS w (id, shard, tenant, version, state, next_fire_at, fires_left, plan, firing, change_seq, name, tags, created_at,
           effective_at, paused_until, definition, judged_by)
WHERE j.id = w.id AND j.tenant = w.tenant AND j.version = w.judged_by
