-- caller: fire
-- guard: the fires that went before
-- index: PRIMARY KEY
INSERT INTO watches (execution_id, kind, job_id, tenant, due_at)
SELECT * FROM unnest($1::uuid[], $2::int2[], $3::uuid[], $4::int8[], $5::int8[])
ON CONFLICT (execution_id, kind) DO UPDATE SET job_id = excluded.job_id, tenant = excluded.tenant, due_at = excluded.due_at
