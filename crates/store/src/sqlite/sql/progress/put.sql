-- caller: extend: a later attempt keeps the checkpoint of an earlier one, and nothing else
-- guard: the attempt's fence was compared before
-- index: PRIMARY KEY
INSERT INTO progress (execution_id, fence, fraction, message, checkpoint, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (execution_id) DO UPDATE
SET fraction = coalesce(excluded.fraction, CASE WHEN fence = excluded.fence THEN fraction END),
    message = coalesce(excluded.message, CASE WHEN fence = excluded.fence THEN message END),
    checkpoint = coalesce(excluded.checkpoint, checkpoint), fence = excluded.fence, at = excluded.at
