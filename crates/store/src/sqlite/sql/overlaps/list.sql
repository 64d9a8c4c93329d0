-- caller: every write of executions whose runs must not overlap: the runs of a job that are not over, in the order of their ids
-- guard: none: reads
-- index: PRIMARY KEY
SELECT execution_id, started FROM overlaps WHERE job_id = ?1 ORDER BY execution_id
