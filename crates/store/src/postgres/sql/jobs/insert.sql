-- caller: put_jobs, for new jobs
-- guard: no row of this id, no live job of this name: judged before, and nobody else writes jobs meanwhile
-- index: jobs_pkey and jobs_name would find a conflict
INSERT INTO jobs (id, shard, tenant, version, state, plan, firing, change_seq, name, tags, created_at, effective_at,
                  paused_until, definition)
SELECT *
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::text[], $7::text[], $8::int8[], $9::text[],
            $10::text[], $11::int8[], $12::int8[], $13::int8[], $14::text[])
