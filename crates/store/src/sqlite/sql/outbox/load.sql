-- caller: load_deliveries, per endpoint
-- guard: none: reads
-- index: outbox_waiting
SELECT seq, tenant, endpoint_id, kind, job_id, execution_id, at, data, state, tries, next_at, status, error
FROM waiting_deliveries
WHERE endpoint_id = ?1 AND next_at <= ?2
ORDER BY next_at, seq
LIMIT ?3
