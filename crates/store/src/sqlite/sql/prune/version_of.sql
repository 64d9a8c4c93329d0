-- caller: prune: whether an execution is of a version
-- guard: none: reads
-- index: PRIMARY KEY
SELECT job_version FROM executions WHERE id = ?1
