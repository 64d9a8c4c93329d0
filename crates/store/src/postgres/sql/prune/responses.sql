-- caller: prune
-- guard: the executions were deleted before
-- index: PRIMARY KEY
DELETE FROM responses WHERE execution_id = ANY($1) AND execution_id >= $2 AND execution_id <= $3
