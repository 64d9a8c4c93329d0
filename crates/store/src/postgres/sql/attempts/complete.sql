-- caller: complete, of a claimed attempt
-- guard: the rows are locked, and were judged since; or they are still as the transaction `seen` wrote them
-- index: PRIMARY KEY
UPDATE executions AS e
SET state = u.state, reason = u.reason, attempt = u.attempt, wake_at = u.wake_at, started_at = u.started_at,
    finished_at = u.finished_at, outcome = u.outcome, error_kind = u.error_kind, error_message = u.error_message,
    losses = u.losses, error_fp = u.error_fp, response_status = u.response_status, response_body = u.response_body
FROM unnest($3::uuid[], $4::int2[], $5::int2[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int2[], $11::text[],
            $12::text[], $13::int8[], $14::int8[], $15::int8[], $16::bytea[], $17::int4[])
     AS u (id, state, reason, attempt, wake_at, started_at, finished_at, outcome, error_kind, error_message, losses, error_fp,
           response_status, response_body, seen)
WHERE e.id = u.id AND e.id >= $1 AND e.id <= $2 AND (u.seen IS NULL OR e.xmin = u.seen)
