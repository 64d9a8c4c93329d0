-- caller: list_attempts: the attempt in the execution's own row; none after it was given back
-- guard: the tenant
-- index: PRIMARY KEY
SELECT e.attempt, e.fence, e.worker, e.started_at, e.finished_at, e.outcome, e.error_kind, e.error_message,
       coalesce(r.status, e.response_status), coalesce(r.body, e.response_body), coalesce(r.truncated, false)
FROM executions AS e LEFT JOIN responses AS r ON r.execution_id = e.id AND r.fence = e.fence
WHERE e.id = ?1 AND e.tenant = ?2 AND e.fence > 0 AND e.started_at IS NOT NULL
