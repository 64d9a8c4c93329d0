-- caller: claim: whether it may start, and what it then needs: the execution and its job as they are now
-- guard: none: reads; judged and guarded by the write that follows
-- index: PRIMARY KEY
SELECT e.kind, e.job_version, e.wake_at, e.state, e.attempt, e.started_at, e.deliveries, e.tenant, e.job_id, e.pool, e.target,
       e.overlap, e.watched, e.fire_at, e.first_started_at, j.state, j.version, j.updated_at,
       e.covers_from, e.attempts_from, e.losses, j.name, j.action_kind, j.action_config, j.max_attempts, j.backoff,
       j.initial_delay_ms, j.max_delay_ms, j.total_timeout_ms, j.timeout_ms, j.payload
FROM executions AS e LEFT JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ?1
