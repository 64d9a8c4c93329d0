-- caller: extend: the time limits of attempts, by the job as it is now
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, timeout_ms, total_timeout_ms FROM jobs WHERE id = ANY($1)
