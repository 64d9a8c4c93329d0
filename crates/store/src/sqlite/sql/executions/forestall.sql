-- caller: cancel, of a fire that has not come and was made for this
-- guard: state ?2
-- index: PRIMARY KEY
UPDATE executions SET reason = ?3, finished_at = ?4, note = ?5 WHERE id = ?1 AND state = ?2
