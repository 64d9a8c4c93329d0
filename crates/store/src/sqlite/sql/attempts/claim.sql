-- caller: claim
-- guard: the state that was loaded (?2)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?3, attempt = ?4, fence = ?5, worker = ?6, claimed_at = ?7, started_at = ?7, wake_at = ?8, queued_at = ?9,
    first_started_at = ?10, deliveries = ?11, reason = NULL, finished_at = NULL, outcome = NULL, error_kind = NULL,
    error_message = NULL, cancel_requested_at = NULL, cancel_reason = NULL
WHERE id = ?1 AND state = ?2
