-- caller: prune
-- guard: nothing is owed
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
DELETE FROM job_versions WHERE job_id = ?1 AND version = ?2 AND next_fire_at IS NULL
