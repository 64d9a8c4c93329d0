-- caller: list_attempts
-- guard: the tenant
-- index: PRIMARY KEY
SELECT a.attempt, a.fence, a.worker, a.started_at, a.finished_at, a.outcome, a.error_kind, a.error_message,
       r.status, r.body, r.truncated
FROM attempts AS a LEFT JOIN responses AS r ON r.execution_id = a.execution_id AND r.fence = a.fence
WHERE a.execution_id = ?1 AND a.tenant = ?2
ORDER BY a.fence
