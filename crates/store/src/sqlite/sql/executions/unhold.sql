-- caller: complete, cancel, claim: when the run is over that it waited for
-- guard: states ?4
-- index: PRIMARY KEY
UPDATE executions SET state = ?2, reason = NULL, wake_at = ?3 WHERE id = ?1 AND (1 << state) & ?4 <> 0
