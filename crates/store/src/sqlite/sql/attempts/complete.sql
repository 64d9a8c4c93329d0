-- caller: complete, of a claimed attempt
-- guard: the state and the fence that were loaded (?2, ?3)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, reason = ?5, attempt = ?6, wake_at = ?7, started_at = ?8, finished_at = ?9, outcome = ?10, error_kind = ?11,
    error_message = ?12, losses = ?13, error_fp = ?14, response_status = ?15, response_body = ?16
WHERE id = ?1 AND state = ?2 AND fence = ?3
