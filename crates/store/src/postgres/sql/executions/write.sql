-- caller: every write of executions that is not of one of the plain shapes: all columns that ever change
-- guard: the rows are locked, and were judged since; or they are still as the transaction `seen` wrote them
-- index: PRIMARY KEY
UPDATE executions AS e
SET job_version = u.job_version, state = u.state, reason = u.reason, attempt = u.attempt, fence = u.fence, priority = u.priority,
    pool = u.pool, action = u.action, wake_at = u.wake_at, fired_at = u.fired_at, started_at = u.started_at,
    finished_at = u.finished_at, worker = u.worker, outcome = u.outcome, error_kind = u.error_kind,
    error_message = u.error_message, target = u.target, overlap = u.overlap, covers_from = u.covers_from,
    queued_at = u.queued_at, claimed_at = u.claimed_at, first_started_at = u.first_started_at, error_fp = u.error_fp,
    deliveries = u.deliveries, losses = u.losses, attempts_from = u.attempts_from,
    cancel_requested_at = u.cancel_requested_at, cancel_reason = u.cancel_reason, note = u.note, watched = u.watched
FROM unnest($3::uuid[], $4::int8[], $5::int2[], $6::int2[], $7::int8[], $8::int8[], $9::int2[], $10::text[], $11::int2[],
            $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::text[], $17::int2[], $18::text[], $19::text[],
            $20::text[], $21::int2[], $22::int8[], $23::int8[], $24::int8[], $25::int8[], $26::int8[], $27::int8[],
            $28::int8[], $29::int8[], $30::int8[], $31::int2[], $32::text[], $33::int2[], $34::int4[])
     AS u (id, job_version, state, reason, attempt, fence, priority, pool, action, wake_at, fired_at, started_at, finished_at,
           worker, outcome, error_kind, error_message, target, overlap, covers_from, queued_at, claimed_at,
           first_started_at, error_fp, deliveries, losses, attempts_from, cancel_requested_at, cancel_reason, note, watched,
           seen)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
