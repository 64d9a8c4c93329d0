-- caller: break_watches
-- guard: none: reads
-- index: watches_due
SELECT execution_id, kind, job_id, tenant, due_at FROM watches WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2
