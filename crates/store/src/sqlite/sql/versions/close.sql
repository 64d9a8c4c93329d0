-- caller: put_jobs, of a deletion: nothing is owed any more
-- guard: the write of the job
-- index: job_versions_open
UPDATE job_versions SET next_fire_at = NULL WHERE job_id = ?1 AND next_fire_at IS NOT NULL
