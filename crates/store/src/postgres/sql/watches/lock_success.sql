-- caller: complete, of successes
-- guard: none
-- index: PRIMARY KEY
SELECT job_id, every_ms, due_at FROM success_watches WHERE job_id = ANY($1) ORDER BY job_id FOR UPDATE
