-- caller: list_executions, of all jobs in final states other than success
-- guard: the tenant
-- index: executions_unhappy
SELECT e.id, e.tenant, e.job_id, j.name, e.job_version, e.fire_at, e.kind, e.state, e.reason, e.attempt, e.fence, e.priority,
       e.pool, e.action, e.wake_at, e.fired_at, e.started_at, e.finished_at, e.worker, e.outcome, e.error_kind,
       e.error_message
FROM executions AS e INDEXED BY executions_unhappy CROSS JOIN jobs AS j ON j.id = e.job_id
WHERE e.state > 4 AND e.id >= ?1 AND e.id < ?2 AND e.tenant = ?3 AND (1 << e.state) & ?4 <> 0
ORDER BY e.id DESC
LIMIT ?5
