-- caller: put_jobs, break_watches: the job is not expected to succeed any more
-- guard: none
-- index: PRIMARY KEY
DELETE FROM success_watches WHERE job_id = ?1
