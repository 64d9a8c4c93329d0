-- caller: put_jobs, for versions that others follow
-- guard: the change of the job
-- index: job_versions_pkey would find a conflict
INSERT INTO job_versions (job_id, version, tenant, state, effective_at, ended_at, paused_until, next_fire_at, fires_left, plan,
                          firing, definition)
SELECT *
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int2[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
            $10::text[], $11::text[], $12::text[])
