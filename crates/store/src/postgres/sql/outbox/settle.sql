-- caller: put_deliveries
-- guard: state $2
-- index: PRIMARY KEY
UPDATE outbox AS o
SET state = t.state, tries = o.tries + 1, next_at = t.next_at, status = t.status, error = t.error
FROM unnest($1::int8[], $3::int2[], $4::int8[], $5::int8[], $6::text[]) AS t (seq, state, next_at, status, error)
WHERE o.seq = t.seq AND o.state = $2
RETURNING o.seq
