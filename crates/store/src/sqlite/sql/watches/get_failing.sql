-- caller: complete: whether a job fails, and since when
-- guard: none: reads
-- index: PRIMARY KEY
SELECT tenant, since FROM failing WHERE job_id = ?1
