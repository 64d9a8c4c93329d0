-- caller: complete of an unclaimed attempt: whether it may start, by the job as it is now
-- guard: none: reads; judged and guarded by the write that follows
-- index: PRIMARY KEY
SELECT e.state, e.attempt, e.wake_at, e.kind, e.job_version, e.fire_at, e.job_id, j.state, j.version, j.updated_at
FROM executions AS e LEFT JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ?1
