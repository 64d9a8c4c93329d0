-- caller: cancel
-- guard: tenant ?2 and states ?4
-- index: PRIMARY KEY
UPDATE executions
SET state = ?3, reason = ?5, finished_at = ?6, outcome = coalesce(?7, outcome)
WHERE id = ?1 AND tenant = ?2 AND (1 << state) & ?4 <> 0
