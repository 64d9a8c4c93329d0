-- caller: list_executions, of those that wait, while they are few
-- guard: none: reads
-- index: executions_waiting
SELECT id FROM waiting_executions LIMIT ?1
