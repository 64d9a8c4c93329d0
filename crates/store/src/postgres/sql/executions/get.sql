-- caller: get_executions, list_executions
-- guard: the tenant
-- index: PRIMARY KEY
SELECT e.id, e.tenant, e.job_id, j.name, e.job_version, e.fire_at, e.kind, e.state, e.reason, e.attempt, e.fence, e.priority,
       e.pool, e.action, e.target, e.overlap, e.covers_from, e.wake_at, e.fired_at, e.queued_at, e.claimed_at,
       e.first_started_at, e.started_at, e.finished_at, e.worker, e.outcome, e.error_kind, e.error_message, e.error_fp,
       e.deliveries, e.losses, e.attempts_from, e.cancel_requested_at, e.note
FROM executions AS e JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ANY($1) AND e.id >= $2 AND e.id <= $3 AND e.tenant = $4
