-- caller: put_jobs, of an active job with success_every
-- guard: the write of the job
-- index: PRIMARY KEY
INSERT INTO success_watches (job_id, tenant, every_ms, due_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job_id) DO UPDATE SET every_ms = excluded.every_ms, due_at = excluded.due_at
WHERE every_ms <> excluded.every_ms
