-- caller: prune
-- guard: the execution was deleted before
-- index: PRIMARY KEY
DELETE FROM attempts WHERE execution_id = ?1
