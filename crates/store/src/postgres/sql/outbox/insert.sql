-- caller: emit, in the transaction of what happened, in the order in which it happened
-- guard: the endpoints want it
-- index: PRIMARY KEY
INSERT INTO outbox (tenant, endpoint_id, kind, job_id, execution_id, at, data, state, tries, next_at)
SELECT tenant, endpoint_id, kind, job_id, execution_id, at, data, $1, 0, at
FROM unnest($2::int8[], $3::uuid[], $4::int2[], $5::uuid[], $6::uuid[], $7::int8[], $8::text[]) WITH ORDINALITY
     AS u (tenant, endpoint_id, kind, job_id, execution_id, at, data, position)
ORDER BY position
