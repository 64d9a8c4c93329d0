-- caller: get_jobs; put_jobs, to judge a write
-- guard: the tenant
-- index: sqlite_autoindex_jobs_1 (id)
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM jobs AS j
WHERE j.id = ?1 AND (?2 IS NULL OR j.tenant = ?2)
