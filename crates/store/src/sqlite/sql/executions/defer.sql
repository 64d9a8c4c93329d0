-- caller: defer, extend
-- guard: the state and the fence that were loaded (?2, ?3); the state stays, so that ?4 is the same
-- index: PRIMARY KEY
UPDATE executions SET wake_at = ?5, reason = ?6 WHERE id = ?1 AND state = ?2 AND fence = ?3 AND state = ?4
