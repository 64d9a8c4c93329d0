-- caller: claim, of an execution that was claimed before
-- guard: none: reads
-- index: PRIMARY KEY
SELECT checkpoint FROM progress WHERE execution_id = ?1
