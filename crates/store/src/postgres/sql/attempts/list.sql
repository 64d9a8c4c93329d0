-- caller: list_attempts: those with rows of their own, and the one in the execution's row, if there is one and it has no row
-- guard: the tenant
-- index: PRIMARY KEY
SELECT a.attempt, a.fence, a.worker, a.started_at, a.finished_at, a.outcome, a.error_kind, a.error_message,
       r.status, r.body, r.truncated
FROM attempts AS a LEFT JOIN responses AS r ON r.execution_id = $1 AND r.fence = a.fence
WHERE a.execution_id = $1 AND a.tenant = $2
UNION ALL
SELECT e.attempt, e.fence, e.worker, e.started_at, e.finished_at, e.outcome, e.error_kind, e.error_message,
       coalesce(r.status, e.response_status), coalesce(r.body, e.response_body), coalesce(r.truncated, false)
FROM executions AS e LEFT JOIN responses AS r ON r.execution_id = $1 AND r.fence = e.fence
WHERE e.id = $1 AND e.tenant = $2 AND e.fence > 0 AND e.started_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.execution_id = $1 AND a.fence = e.fence)
ORDER BY 2
