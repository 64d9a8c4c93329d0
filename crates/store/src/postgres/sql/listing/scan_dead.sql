-- caller: list_executions, by the fingerprint of what they died of
-- guard: the tenant
-- index: executions_dead
SELECT id, tenant, job_id, state, reason, kind, fire_at, attempt, pool, target, worker, error_kind, error_fp,
       first_started_at, started_at, finished_at
FROM dead_executions
WHERE tenant = $4 AND error_fp = $5 AND id >= $1 AND id < $2
ORDER BY id DESC
LIMIT $3
