-- caller: list_jobs
-- guard: the tenant; only live jobs
-- index: jobs_name
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM live_jobs AS j
WHERE j.tenant = ?1 AND j.name > ?2 AND j.name >= ?3 AND (?4 IS NULL OR j.name < ?4)
  AND (?5 IS NULL OR j.state = ?5)
  AND (?6 IS NULL OR instr(char(10) || j.tags || char(10), char(10) || ?6 || char(10)) > 0)
ORDER BY j.name
LIMIT ?7
