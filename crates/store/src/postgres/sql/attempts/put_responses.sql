-- caller: complete
-- guard: the rows of their executions are locked, or written by this transaction if nobody has changed them
-- index: PRIMARY KEY
INSERT INTO responses (execution_id, fence, tenant, status, truncated, body)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::bool[], $6::bytea[])
ON CONFLICT (execution_id, fence) DO UPDATE
SET status = excluded.status, truncated = excluded.truncated, body = excluded.body
