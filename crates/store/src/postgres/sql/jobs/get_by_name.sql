-- caller: get_jobs
-- guard: the tenant; only live jobs
-- index: jobs_name
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM live_jobs AS j
WHERE j.tenant = $1 AND j.name = ANY($2)
