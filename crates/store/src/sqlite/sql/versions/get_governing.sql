-- caller: every verb that may start an execution: of the versions from ?2 on, the first that was not over at instant ?3
-- guard: none: reads
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
SELECT version, state, effective_at FROM job_versions
WHERE job_id = ?1 AND version >= ?2 AND ended_at >= ?3
ORDER BY version
LIMIT 1
