-- caller: whoever leads watched executions to their final state; fire, of a newer version
-- guard: none
-- index: PRIMARY KEY
DELETE FROM watches WHERE execution_id = ANY($1)
