-- caller: put_jobs, of active jobs with success_every: another period begins anew
-- guard: the write of the jobs
-- index: PRIMARY KEY
INSERT INTO success_watches AS w (job_id, tenant, every_ms, due_at)
SELECT job_id, tenant, every_ms, due_at
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) AS u (job_id, tenant, every_ms, due_at)
ORDER BY job_id
ON CONFLICT (job_id) DO UPDATE SET every_ms = excluded.every_ms, due_at = excluded.due_at
WHERE w.every_ms <> excluded.every_ms
