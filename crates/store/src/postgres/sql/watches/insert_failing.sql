-- caller: complete, of deaths; break_watches
-- guard: one that is there stays
-- index: PRIMARY KEY
INSERT INTO failing (job_id, tenant, since)
SELECT job_id, tenant, since FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS u (job_id, tenant, since) ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
