-- caller: complete, cancel, replay: what waits from now on, as it is dispatched
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, job_id, fire_at, pool, tenant, job_version, attempt, priority, action, target, wake_at
FROM executions
WHERE id = ?1
