-- caller: list_executions, of one job
-- guard: none: the tenant is compared row by row
-- index: PRIMARY KEY of both
SELECT e.id, e.tenant, e.job_id, e.state, e.reason, e.kind, e.fire_at, e.attempt, e.pool, e.target, e.worker, e.error_kind,
       e.error_fp, e.first_started_at, e.started_at, e.finished_at
FROM history AS h JOIN executions AS e ON e.id = h.execution_id
WHERE h.job_id = $4 AND h.execution_id >= $1 AND h.execution_id < $2 AND e.id >= $1 AND e.id < $2
ORDER BY h.execution_id DESC
LIMIT $3
