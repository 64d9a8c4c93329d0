-- caller: list_executions, where another index gave the ids
-- guard: none: the tenant is compared
-- index: PRIMARY KEY
SELECT id, tenant, job_id, state, reason, kind, fire_at, attempt, pool, target, worker, error_kind, error_fp,
       first_started_at, started_at, finished_at
FROM executions
WHERE id = ANY($1) AND id >= $2 AND id <= $3
ORDER BY id DESC
