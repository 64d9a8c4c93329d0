-- caller: complete, of an attempt that was not claimed
-- guard: the state that was loaded (?2)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?3, attempt = ?4, fence = ?5, worker = ?6, started_at = ?7, finished_at = ?8, outcome = ?9, reason = ?10,
    claimed_at = ?11, queued_at = ?12, first_started_at = ?13, deliveries = ?14, error_kind = NULL, error_message = NULL
WHERE id = ?1 AND state = ?2
