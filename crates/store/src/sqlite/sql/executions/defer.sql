-- caller: defer
-- guard: states ?4 and attempt ?5
-- index: PRIMARY KEY
UPDATE executions SET wake_at = ?2, reason = ?3 WHERE id = ?1 AND (1 << state) & ?4 <> 0 AND attempt = ?5
