-- caller: reconcile
-- guard: none: reads
-- index: executions_dead
SELECT tenant, error_fp FROM dead_executions WHERE error_fp IS NOT NULL
