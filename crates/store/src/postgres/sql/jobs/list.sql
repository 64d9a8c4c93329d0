-- caller: list_jobs; $4 lies after all names, where there is no other end
-- guard: the tenant; only live jobs
-- index: jobs_name, cursors_pkey
SELECT j.id, j.tenant, j.version, j.state, c.next_fire_at, c.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM live_jobs AS j LEFT JOIN cursors AS c ON c.job_id = j.id
WHERE j.tenant = $1 AND j.name > $2 AND j.name >= $3 AND j.name < $4
  AND ($5::int2 IS NULL OR j.state = $5)
  AND ($6::text IS NULL OR position(chr(10) || $6 || chr(10) IN chr(10) || j.tags || chr(10)) > 0)
ORDER BY j.name
LIMIT $7
