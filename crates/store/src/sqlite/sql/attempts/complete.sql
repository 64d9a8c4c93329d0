-- caller: complete, of a claimed attempt
-- guard: states ?2, attempt ?3, fence ?4
-- index: PRIMARY KEY
UPDATE executions
SET state = ?5, reason = ?6, attempt = ?7, wake_at = ?8, started_at = ?9, finished_at = ?10, outcome = ?11,
    error_kind = ?12, error_message = ?13, losses = losses + ?14, error_fp = ?15
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3 AND fence = ?4
