-- caller: claim
-- guard: the rows are locked, and were judged since; or they are still as the transaction `seen` wrote them
-- index: PRIMARY KEY
UPDATE executions AS e
SET state = u.state, attempt = u.attempt, fence = u.fence, worker = u.worker, claimed_at = u.started_at,
    started_at = u.started_at, wake_at = u.wake_at, queued_at = u.queued_at, first_started_at = u.first_started_at,
    deliveries = u.deliveries, reason = NULL, finished_at = NULL, outcome = NULL, error_kind = NULL, error_message = NULL,
    cancel_requested_at = NULL, cancel_reason = NULL
FROM unnest($3::uuid[], $4::int2[], $5::int8[], $6::int8[], $7::text[], $8::int8[], $9::int8[], $10::int8[], $11::int8[],
            $12::int8[], $13::int4[])
     AS u (id, state, attempt, fence, worker, started_at, wake_at, queued_at, first_started_at, deliveries, seen)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
