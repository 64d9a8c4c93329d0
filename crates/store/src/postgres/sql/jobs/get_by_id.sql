-- caller: get_jobs
-- guard: the tenant
-- index: jobs_pkey
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM jobs AS j
WHERE j.id = ANY($1) AND j.tenant = $2
