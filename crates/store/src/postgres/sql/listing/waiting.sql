-- caller: list_executions, of those that wait, while they are few
-- guard: none: reads; every state below 4 other than 2 waits
-- index: executions_waiting
SELECT id FROM executions WHERE state < 4 AND state <> 2 AND id >= $1 AND id < $2 LIMIT $3
