-- caller: load_due: the jobs of a slot between two positions, to be sorted
-- guard: state ?2
-- index: jobs_due
SELECT id, tenant, version, state, next_fire_at, fires_left, plan, firing FROM jobs
WHERE next_fire_at IS NOT NULL AND next_fire_at >> 18 = ?1 AND state = ?2
  AND (next_fire_at, id) > (?3, ?4) AND (next_fire_at, id) <= (?5, ?6)
