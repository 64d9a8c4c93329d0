-- caller: put_jobs, for new jobs
-- guard: no row of this id, no live job of this name: judged before, and nobody else writes jobs meanwhile
-- index: jobs_pkey and jobs_name would find a conflict
INSERT INTO jobs (id, shard, tenant, version, state, next_fire_at, fires_left, plan, firing, change_seq, name, tags,
                  created_at, effective_at, paused_until, definition)
SELECT *
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::text[], $9::text[],
            $10::int8[], $11::text[], $12::text[], $13::int8[], $14::int8[], $15::int8[], $16::text[])
