-- caller: large writes of executions that may be neighbours: read what they are judged by, by the columns of load.sql
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, tenant, job_id, pool, target, overlap, watched, fire_at, first_started_at, kind, job_version, state, reason, attempt,
       fence, priority, action, wake_at, fired_at, started_at, finished_at, worker, outcome, error_kind, error_message,
       covers_from, queued_at, claimed_at, error_fp, deliveries, losses, attempts_from, cancel_requested_at, cancel_reason, note
FROM executions
WHERE id BETWEEN ?1 AND ?2
ORDER BY id
