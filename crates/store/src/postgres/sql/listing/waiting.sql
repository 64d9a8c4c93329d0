-- caller: list_executions, of those that wait, while they are few
-- guard: none: reads
-- index: executions_waiting
SELECT id FROM waiting_executions WHERE id >= $1 AND id < $2 LIMIT $3
