-- caller: reconcile
-- guard: there is no such group
-- index: executions_dead
INSERT INTO dead_groups (tenant, fingerprint, target, kind, message, n, first_at, last_at, sample)
SELECT tenant, error_fp, target, coalesce(error_kind, ''), coalesce(error_message, ''), ?3, finished_at, finished_at, id
FROM dead_executions
WHERE tenant = ?1 AND error_fp = ?2 AND finished_at IS NOT NULL AND ?3 > 0
ORDER BY id DESC
LIMIT 1
