-- caller: every guarded write of one execution: to judge it, to explain why it did not happen, to note what follows from it
-- guard: none: reads; the write that follows is guarded
-- index: PRIMARY KEY
SELECT state, attempt, started_at, deliveries, tenant, job_id, pool, target, overlap, watched, fire_at, first_started_at,
       fence, wake_at, outcome, finished_at, cancel_requested_at, error_fp, worker
FROM executions
WHERE id = ?1
