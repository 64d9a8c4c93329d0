-- caller: claim
-- guard: states ?2 and attempt ?3
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = attempt + 1, fence = ?5, worker = ?6, claimed_at = ?7, started_at = ?7, wake_at = ?8, queued_at = ?9,
    first_started_at = coalesce(first_started_at, started_at), deliveries = deliveries + 1, reason = NULL,
    finished_at = NULL, outcome = NULL, error_kind = NULL, error_message = NULL, cancel_requested_at = NULL,
    cancel_reason = NULL
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3
