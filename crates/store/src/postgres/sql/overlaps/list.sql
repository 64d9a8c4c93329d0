-- caller: every write of executions whose runs may not overlap: the runs of their jobs that are not over
-- guard: their jobs are locked
-- index: PRIMARY KEY
SELECT job_id, execution_id, started FROM "overlaps" WHERE job_id = ANY($1)
