-- caller: the writer, to know which jobs are failing
-- guard: none: reads
-- index: none: all are read
SELECT job_id FROM failing
