-- caller: list_jobs, of those whose pause ends by ?1
-- guard: the tenant, if it is named; only paused jobs
-- index: jobs_resumable
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM paused_jobs AS j
WHERE j.paused_until IS NOT NULL AND j.paused_until <= ?1 AND (?2 IS NULL OR j.tenant = ?2)
ORDER BY j.paused_until
LIMIT ?3
