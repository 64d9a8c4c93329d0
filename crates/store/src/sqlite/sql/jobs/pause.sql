-- caller: complete, when a target is gone for good
-- guard: the job is in state ?4
-- index: sqlite_autoindex_jobs_1 (id)
UPDATE jobs
SET state = ?2, version = version + 1, updated_at = ?3, next_fire_at = NULL, change_seq = ?5
WHERE id = (SELECT job_id FROM executions WHERE id = ?1) AND state = ?4
