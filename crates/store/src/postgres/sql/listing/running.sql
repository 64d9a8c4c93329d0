-- caller: list_executions, of those that run, while they are few
-- guard: none: reads
-- index: executions_running
SELECT id FROM running_executions WHERE id >= $1 AND id < $2 LIMIT $3
