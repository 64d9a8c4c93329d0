-- caller: complete, of an attempt that was not claimed and of which the writer remembers the fire
-- guard: states ?2, attempt ?3, never begun, due, and a job in the version that fired it and not in state ?13
-- index: PRIMARY KEY
UPDATE executions
SET state = ?4, attempt = ?3 + 1, fence = ?5, worker = ?6, started_at = ?7, finished_at = ?8, outcome = ?9, reason = ?10,
    claimed_at = ?11, queued_at = ?12, deliveries = deliveries + 1
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3 AND started_at IS NULL AND wake_at <= ?11
  AND (SELECT version = executions.job_version AND state <> ?13 FROM jobs WHERE id = executions.job_id)
