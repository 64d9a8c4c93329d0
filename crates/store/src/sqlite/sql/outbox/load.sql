-- caller: load_deliveries, per endpoint
-- guard: none: reads; state 0 waits
-- index: outbox_waiting
SELECT seq, tenant, endpoint_id, kind, job_id, execution_id, at, data, state, tries, next_at, status, error
FROM outbox
WHERE endpoint_id = ?1 AND state = 0 AND next_at <= ?2
ORDER BY next_at, seq
LIMIT ?3
