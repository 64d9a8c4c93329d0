-- caller: list_executions, in final states other than success
-- guard: none: the tenant is compared row by row, because every row that is looked at is counted
-- index: executions_unhappy
SELECT id, tenant, job_id, state, reason, kind, fire_at, attempt, pool, target, worker, error_kind, error_fp,
       first_started_at, started_at, finished_at
FROM unhappy_executions
WHERE id >= ?1 AND id < ?2
ORDER BY id DESC
