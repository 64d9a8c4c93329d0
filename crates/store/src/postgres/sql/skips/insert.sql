-- caller: put_jobs, fire
-- guard: the caller's; a repeated skip is the same row
-- index: skips_pkey
INSERT INTO skips (job_id, to_at, from_at, reason, tenant, recorded_at)
SELECT job_id, to_at, from_at, reason, tenant, recorded_at
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int2[], $5::int8[], $6::int8[])
     AS u (job_id, to_at, from_at, reason, tenant, recorded_at)
ORDER BY job_id, to_at, from_at, reason
ON CONFLICT DO NOTHING
