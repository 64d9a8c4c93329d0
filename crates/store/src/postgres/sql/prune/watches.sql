-- caller: prune
-- guard: the executions were deleted before
-- index: PRIMARY KEY
DELETE FROM watches WHERE execution_id = ANY($1)
