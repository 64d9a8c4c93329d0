-- caller: claim
-- guard: states ?2 and attempt ?3
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = attempt + 1, fence = ?5, worker = ?6, started_at = ?7, wake_at = ?8, reason = NULL,
    finished_at = NULL, outcome = NULL, error_kind = NULL, error_message = NULL
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3
