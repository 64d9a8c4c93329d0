-- caller: extend: a later attempt keeps the checkpoint of an earlier one, and nothing else
-- guard: the attempts' fences were compared before
-- index: PRIMARY KEY
INSERT INTO progress AS p (execution_id, fence, fraction, message, checkpoint, at)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::float8[], $4::text[], $5::text[], $6::int8[])
ON CONFLICT (execution_id) DO UPDATE
SET fraction = coalesce(excluded.fraction, CASE WHEN p.fence = excluded.fence THEN p.fraction END),
    message = coalesce(excluded.message, CASE WHEN p.fence = excluded.fence THEN p.message END),
    checkpoint = coalesce(excluded.checkpoint, p.checkpoint), fence = excluded.fence, at = excluded.at
