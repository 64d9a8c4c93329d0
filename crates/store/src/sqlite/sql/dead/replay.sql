-- caller: replay: what is done, where and for whom, is by the job as it is now: it may have been mended
-- guard: states ?4, and a job that is not deleted (?6)
-- index: PRIMARY KEY
UPDATE executions
SET state = ?2, wake_at = ?3, overlap = ?5, attempts_from = attempt, losses = 0,
    first_started_at = coalesce(first_started_at, started_at), reason = NULL, finished_at = NULL, outcome = NULL,
    error_kind = NULL, error_message = NULL, error_fp = NULL, cancel_requested_at = NULL, cancel_reason = NULL,
    action = j.action_kind, target = j.target, pool = j.pool, priority = j.priority
FROM (SELECT id, state, action_kind, target, pool, priority FROM jobs) AS j
WHERE executions.id = ?1 AND (1 << executions.state) & ?4 <> 0 AND j.id = executions.job_id AND j.state <> ?6
RETURNING pool
