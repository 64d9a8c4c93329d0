-- caller: every write of executions, in the order of their ids; most add FOR UPDATE, and read them as they are once locked
-- guard: none: what is not locked is compared by xmin when it is written; with $4, only those with this code of overlap
-- index: PRIMARY KEY
SELECT id, tenant, job_id, pool, target, overlap, watched, fire_at, first_started_at, kind, job_version, state, reason, attempt,
       fence, priority, action, wake_at, fired_at, started_at, finished_at, worker, outcome, error_kind, error_message,
       covers_from, queued_at, claimed_at, error_fp, deliveries, losses, attempts_from, cancel_requested_at, cancel_reason, note, xmin
FROM executions
WHERE id = ANY($1) AND id >= $2 AND id <= $3 AND ($4::int2 IS NULL OR overlap = $4)
ORDER BY id
