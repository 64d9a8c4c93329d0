-- caller: claim, of executions that were claimed before
-- guard: none: reads
-- index: PRIMARY KEY
SELECT execution_id, checkpoint
FROM progress
WHERE execution_id = ANY($1) AND execution_id >= $2 AND execution_id <= $3 AND checkpoint IS NOT NULL
