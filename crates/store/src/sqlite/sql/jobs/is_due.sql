-- caller: load_due: whether a job that was moved is still as it was read
-- guard: state ?2, and the cursor that was read
-- index: sqlite_autoindex_jobs_1
SELECT 1 FROM jobs WHERE id = ?1 AND state = ?2 AND version = ?3 AND next_fire_at = ?4
