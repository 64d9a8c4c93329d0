-- caller: complete, of an attempt that was given back before it started
-- guard: states ?2, attempt ?3, fence ?4
-- index: PRIMARY KEY
UPDATE executions
SET state = ?5, reason = ?6, attempt = ?7, wake_at = ?8, finished_at = ?9, outcome = ?10, worker = NULL, queued_at = NULL,
    claimed_at = NULL, started_at = NULL
WHERE id = ?1 AND (1 << state) & ?2 <> 0 AND attempt = ?3 AND fence = ?4
