-- caller: put_jobs, break_watches: the jobs are not expected to succeed any more
-- guard: none
-- index: PRIMARY KEY
DELETE FROM success_watches WHERE job_id = ANY($1)
