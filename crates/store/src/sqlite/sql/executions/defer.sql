-- caller: defer, extend
-- guard: the state that was loaded (?2), which stays (?3)
-- index: PRIMARY KEY
UPDATE executions SET wake_at = ?4, reason = ?5 WHERE id = ?1 AND state = ?2 AND state = ?3
