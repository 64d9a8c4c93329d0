-- caller: load_due: the rows that a slot named, in the order of the table
-- guard: state ?2, and the cursor that the slot told
-- index: INTEGER PRIMARY KEY
SELECT j.id, j.tenant, j.version, j.state, j.updated_at, j.plan, j.next_fire_at, j.fires_left, j.ends_at, j.spread_ms,
       j.priority, j.pool, j.action_kind, j.target, j.catch_up_mode, j.catch_up_n, j.catch_up_age_ms, j.catch_up_drip_ms,
       j.overlap, j.start_within_ms, j.finish_within_ms, j.success_every_ms, j.blackouts
FROM jobs AS j
WHERE j.rowid = ?1 AND j.state = ?2 AND j.id = ?3 AND j.next_fire_at = ?4
