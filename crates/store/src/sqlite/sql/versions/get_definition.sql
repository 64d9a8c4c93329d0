-- caller: claim, extend: what an attempt of a superseded version runs by
-- guard: none: reads
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
SELECT definition FROM job_versions WHERE job_id = ?1 AND version = ?2
