-- caller: list_deliveries
-- guard: the tenant
-- index: outbox_endpoint
SELECT seq, tenant, endpoint_id, kind, job_id, execution_id, at, data, state, tries, next_at, status, error
FROM outbox
WHERE endpoint_id = $1 AND tenant = $2 AND seq < $3
ORDER BY seq DESC
LIMIT $4
