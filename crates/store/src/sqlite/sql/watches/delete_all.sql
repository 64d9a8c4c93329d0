-- caller: whoever leads a watched execution to its final state; fire, of a newer version
-- guard: none
-- index: PRIMARY KEY
DELETE FROM watches WHERE execution_id = ?1
