-- caller: put_jobs, for the last change
-- guard: single writer
-- index: PRIMARY KEY
UPDATE counters SET value = ?2 WHERE name = ?1
