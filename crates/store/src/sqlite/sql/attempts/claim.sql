-- caller: claim
-- guard: the state and the fence that were loaded (?2, ?3)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = ?5, fence = ?6, worker = ?7, claimed_at = ?8, started_at = ?8, wake_at = ?9, queued_at = ?10,
    first_started_at = ?11, deliveries = ?12, reason = NULL, finished_at = NULL, outcome = NULL, error_kind = NULL,
    error_message = NULL, cancel_requested_at = NULL, cancel_reason = NULL
WHERE id = ?1 AND state = ?2 AND fence = ?3
