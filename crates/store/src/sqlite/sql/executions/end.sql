-- caller: claim, complete, cancel: of executions that end without an attempt that says so
-- guard: states ?7 and attempt ?8
-- index: PRIMARY KEY
UPDATE executions
SET state = ?2, reason = ?3, finished_at = ?4, outcome = coalesce(?5, outcome), note = coalesce(?6, note)
WHERE id = ?1 AND (1 << state) & ?7 <> 0 AND attempt = ?8
