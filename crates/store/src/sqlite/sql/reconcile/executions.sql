-- caller: reconcile
-- guard: none: reads
-- index: none: everything is counted
SELECT tenant, pool, state FROM executions
