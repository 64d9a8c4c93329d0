-- caller: the writer, to know which jobs are watched
-- guard: none: reads
-- index: none: all are read
SELECT job_id FROM success_watches
