-- caller: load_expired
-- guard: none: reads; the runner's node is judged row by row
-- index: executions_running
SELECT e.id, e.job_id, e.fire_at, e.pool, e.tenant, e.job_version, e.attempt, e.priority, e.action, e.wake_at, e.fence,
       e.started_at, e.worker, j.max_attempts, j.backoff, j.initial_delay_ms, j.max_delay_ms
FROM executions AS e JOIN jobs AS j ON j.id = e.job_id
WHERE e.state = 2
ORDER BY e.wake_at, e.id
