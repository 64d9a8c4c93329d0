-- caller: list_executions, of those that wait, while they are few
-- guard: none: reads; every state below 4 other than 2 waits
-- index: executions_waiting
SELECT id FROM executions INDEXED BY executions_waiting WHERE state < 4 AND state <> 2 LIMIT ?1
