-- caller: list_executions, of one job
-- guard: none: the tenant is compared row by row
-- index: executions_job
SELECT id, tenant, job_id, state, reason, kind, fire_at, attempt, pool, target, worker, error_kind, error_fp,
       first_started_at, started_at, finished_at
FROM executions
WHERE job_id = $4 AND id >= $1 AND id < $2
ORDER BY id DESC
LIMIT $3
