-- caller: list_executions, of those that run, while they are few
-- guard: none: reads; state 2 runs
-- index: executions_running
SELECT id FROM executions INDEXED BY executions_running WHERE state = 2 LIMIT ?1
