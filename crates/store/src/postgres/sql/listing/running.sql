-- caller: list_executions, of those that run, while they are few
-- guard: none: reads; state 2 runs
-- index: executions_running
SELECT id FROM executions WHERE state = 2 AND id >= $1 AND id < $2 LIMIT $3
