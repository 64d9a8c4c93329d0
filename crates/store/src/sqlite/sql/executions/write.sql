-- caller: every write of executions that changes more than an attempt
-- guard: the state and the fence that were loaded (?2, ?3)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, job_version = ?5, reason = ?6, attempt = ?7, fence = ?8, priority = ?9, pool = ?10, action = ?11, wake_at = ?12,
    fired_at = ?13, started_at = ?14, finished_at = ?15, worker = ?16, outcome = ?17, error_kind = ?18, error_message = ?19,
    target = ?20, overlap = ?21, covers_from = ?22, queued_at = ?23, claimed_at = ?24, first_started_at = ?25, error_fp = ?26,
    deliveries = ?27, losses = ?28, attempts_from = ?29, cancel_requested_at = ?30, cancel_reason = ?31, note = ?32, watched = ?33
WHERE id = ?1 AND state = ?2 AND fence = ?3
