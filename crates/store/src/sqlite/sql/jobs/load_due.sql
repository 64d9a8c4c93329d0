-- caller: load_due
-- guard: none: reads; only jobs in state ?4
-- index: jobs_due
SELECT j.id, j.tenant, j.version, j.state, j.updated_at, j.plan, j.next_fire_at, j.fires_left, j.ends_at, j.spread_ms,
       j.priority, j.pool, j.action_kind, j.catch_up_mode, j.catch_up_n, j.catch_up_age_ms
FROM jobs AS j
WHERE j.next_fire_at IS NOT NULL AND j.next_fire_at < ?1 AND (j.next_fire_at, j.id) > (?2, ?3) AND j.state = ?4
ORDER BY j.next_fire_at, j.id
