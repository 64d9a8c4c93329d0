-- caller: claim: whether it may start, and what it then needs: the execution and its job as they are now
-- guard: none: reads; judged and guarded by the write that follows
-- index: PRIMARY KEY
SELECT e.state, e.attempt, e.wake_at, e.kind, e.job_version, e.fire_at, e.job_id,
       j.state, j.version, j.updated_at,
       j.tenant, j.name, j.action_kind, j.action_config, j.max_attempts, j.backoff, j.initial_delay_ms, j.max_delay_ms,
       j.timeout_ms, j.payload
FROM executions AS e LEFT JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ?1
