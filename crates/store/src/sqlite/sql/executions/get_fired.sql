-- caller: fire, of an instant that has an execution: may a newer version take it over?
-- guard: none: reads; the write that follows is guarded
-- index: PRIMARY KEY
SELECT state, job_version, attempt, reason, started_at, first_started_at, pool, overlap FROM executions WHERE id = ?1
