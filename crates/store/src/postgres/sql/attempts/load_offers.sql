-- caller: claim, extend: whether it may start, and what it then needs, by the job as it is now
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, state, version, updated_at, name, action_kind, action_config, max_attempts, backoff, initial_delay_ms, max_delay_ms,
       total_timeout_ms, timeout_ms, payload
FROM jobs
WHERE id = ANY($1)
