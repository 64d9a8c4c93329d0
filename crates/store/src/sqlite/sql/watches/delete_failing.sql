-- caller: complete, of a success; put_jobs, of a deletion
-- guard: none
-- index: PRIMARY KEY
DELETE FROM failing WHERE job_id = ?1
