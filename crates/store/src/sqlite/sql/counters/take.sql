-- caller: put_jobs, claim, complete: the next ?2 numbers end at the answer
-- guard: single writer
-- index: PRIMARY KEY
UPDATE counters SET value = value + ?2 WHERE name = ?1 RETURNING value
