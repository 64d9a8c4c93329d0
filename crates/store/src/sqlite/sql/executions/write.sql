-- caller: every write of executions that changes more than an attempt
-- guard: the state that was loaded (?2)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?3, job_version = ?4, reason = ?5, attempt = ?6, fence = ?7, priority = ?8, pool = ?9, action = ?10, wake_at = ?11,
    fired_at = ?12, started_at = ?13, finished_at = ?14, worker = ?15, outcome = ?16, error_kind = ?17, error_message = ?18,
    target = ?19, overlap = ?20, covers_from = ?21, queued_at = ?22, claimed_at = ?23, first_started_at = ?24, error_fp = ?25,
    deliveries = ?26, losses = ?27, attempts_from = ?28, cancel_requested_at = ?29, cancel_reason = ?30, note = ?31, watched = ?32
WHERE id = ?1 AND state = ?2
