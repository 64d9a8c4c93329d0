-- caller: load_running
-- guard: none: reads; judged by the caller
-- index: PRIMARY KEY
SELECT e.state, e.id, e.job_id, e.fire_at, e.pool, e.tenant, e.job_version, e.attempt, e.priority, e.action, e.target,
       e.wake_at, e.fence, e.started_at, e.worker, e.attempts_from, e.losses, e.cancel_requested_at, e.cancel_reason, j.version,
       j.max_attempts, j.backoff, j.initial_delay_ms, j.max_delay_ms, j.total_timeout_ms, j.timeout_ms,
       CASE WHEN e.attempts_from = 0 THEN e.first_started_at
            ELSE (SELECT min(a.started_at) FROM attempts AS a WHERE a.execution_id = e.id AND a.attempt > e.attempts_from) END
FROM executions AS e CROSS JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ?1
