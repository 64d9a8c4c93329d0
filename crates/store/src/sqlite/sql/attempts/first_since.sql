-- caller: claim, extend: when the first attempt after a replay started
-- guard: none: reads
-- index: PRIMARY KEY
SELECT min(started_at) FROM attempts WHERE execution_id = ?1 AND attempt > ?2
