-- caller: get_jobs
-- guard: the tenant; only live jobs
-- index: jobs_name, cursors_pkey
SELECT j.id, j.tenant, j.version, j.state, c.next_fire_at, c.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM live_jobs AS j LEFT JOIN cursors AS c ON c.job_id = j.id
WHERE j.tenant = $1 AND j.name = ANY($2)
