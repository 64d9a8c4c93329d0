-- caller: complete, of successes and deaths
-- guard: none
-- index: PRIMARY KEY
SELECT job_id, tenant, since FROM failing WHERE job_id = ANY($1) ORDER BY job_id FOR UPDATE
