-- caller: list_skips
-- guard: the tenant
-- index: pruned_runs_pkey
SELECT fire_at FROM pruned_runs
WHERE job_id = $1 AND tenant = $2 AND fire_at >= $3 AND fire_at <= $4
ORDER BY fire_at DESC
LIMIT $5
