-- caller: complete, of an attempt that was not claimed
-- guard: the state and the fence that were loaded (?2, ?3)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = ?5, fence = ?6, worker = ?7, started_at = ?8, finished_at = ?9, outcome = ?10, reason = ?11,
    claimed_at = ?12, queued_at = ?13, first_started_at = ?14, deliveries = ?15, error_kind = NULL, error_message = NULL
WHERE id = ?1 AND state = ?2 AND fence = ?3
