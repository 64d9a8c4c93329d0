-- caller: list_jobs, of those whose pause ends by $1
-- guard: the tenant, if it is named; only paused jobs
-- index: jobs_resumable, cursors_pkey
SELECT j.id, j.tenant, j.version, j.state, c.next_fire_at, c.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM paused_jobs AS j LEFT JOIN cursors AS c ON c.job_id = j.id
WHERE j.paused_until IS NOT NULL AND j.paused_until <= $1 AND ($2::int8 IS NULL OR j.tenant = $2)
ORDER BY j.paused_until
LIMIT $3
