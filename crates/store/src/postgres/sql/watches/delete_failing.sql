-- caller: complete, of successes; put_jobs, of deletions
-- guard: none
-- index: PRIMARY KEY
DELETE FROM failing WHERE job_id = ANY($1)
