-- caller: complete, of an attempt that another one follows; replay, of the newest: what is there stays
-- guard: the rows of their executions are locked, or written by this transaction if nobody has changed them
-- index: PRIMARY KEY
INSERT INTO attempts (execution_id, fence, tenant, attempt, worker, started_at, finished_at, outcome, error_kind, error_message)
SELECT *
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[], $7::int8[], $8::int2[], $9::text[],
            $10::text[])
ON CONFLICT (execution_id, fence) DO NOTHING
