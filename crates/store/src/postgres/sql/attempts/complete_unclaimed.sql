-- caller: complete, of an attempt that was not claimed
-- guard: the rows are locked, and were judged since; or they are still as the transaction `seen` wrote them
-- index: PRIMARY KEY
UPDATE executions AS e
SET state = u.state, attempt = u.attempt, fence = u.fence, worker = u.worker, started_at = u.started_at,
    finished_at = u.finished_at, outcome = u.outcome, reason = u.reason, claimed_at = u.claimed_at, queued_at = u.queued_at,
    first_started_at = u.first_started_at, deliveries = u.deliveries, error_kind = NULL, error_message = NULL
FROM unnest($3::uuid[], $4::int2[], $5::int8[], $6::int8[], $7::text[], $8::int8[], $9::int8[], $10::int2[], $11::int2[],
            $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int4[])
     AS u (id, state, attempt, fence, worker, started_at, finished_at, outcome, reason, claimed_at, queued_at,
           first_started_at, deliveries, seen)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
