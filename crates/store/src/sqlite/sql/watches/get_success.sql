-- caller: complete, of a success: by when it was expected
-- guard: none: reads
-- index: PRIMARY KEY
SELECT every_ms, due_at FROM success_watches WHERE job_id = ?1
