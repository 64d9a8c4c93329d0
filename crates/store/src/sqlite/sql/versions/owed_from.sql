-- caller: put_jobs, of a deletion: the earliest fire that an older version still owes
-- guard: none: reads
-- index: job_versions_open
SELECT min(next_fire_at) FROM job_versions WHERE job_id = ?1 AND next_fire_at IS NOT NULL
