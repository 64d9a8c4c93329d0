-- caller: complete: the watches of its executions, before those of its jobs
-- guard: none
-- index: PRIMARY KEY
SELECT execution_id FROM watches WHERE execution_id = ANY($1) ORDER BY execution_id, kind FOR UPDATE
