-- caller: list_executions, of those that run, while they are few
-- guard: none: reads
-- index: executions_running
SELECT id FROM running_executions LIMIT ?1
