-- caller: complete, of a claimed attempt
-- guard: the state that was loaded (?2)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?3, reason = ?4, attempt = ?5, wake_at = ?6, started_at = ?7, finished_at = ?8, outcome = ?9, error_kind = ?10,
    error_message = ?11, losses = ?12, error_fp = ?13
WHERE id = ?1 AND state = ?2
