-- caller: load_due: the rows that a slot named, in the order of the table
-- guard: state ?2, and the cursor that the slot told
-- index: INTEGER PRIMARY KEY
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing
FROM jobs AS j
WHERE j.rowid = ?1 AND j.state = ?2 AND j.id = ?3 AND j.next_fire_at = ?4
