-- caller: extend, complete
-- guard: the attempts' fences were compared before
-- index: PRIMARY KEY
INSERT INTO logs (execution_id, seq, fence, at, level, message)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::text[])
