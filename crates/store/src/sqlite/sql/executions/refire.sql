-- caller: fire, when a newer version of the job claims its instant
-- guard: states ?12, an older version, and no attempt yet
-- index: PRIMARY KEY
UPDATE executions
SET job_version = ?2, state = ?3, reason = NULL, priority = ?4, pool = ?5, action = ?6, wake_at = ?7, fired_at = ?8,
    target = ?9, overlap = ?10, covers_from = ?11, watched = ?13, finished_at = NULL
WHERE id = ?1 AND job_version < ?2 AND attempt = 0 AND (1 << state) & ?12 <> 0
