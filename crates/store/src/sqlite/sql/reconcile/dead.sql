-- caller: reconcile
-- guard: none: reads
-- index: executions_dead
SELECT tenant, error_fp FROM executions INDEXED BY executions_dead WHERE state = 5 AND error_fp IS NOT NULL
