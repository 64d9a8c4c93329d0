-- caller: replay, bury, prune, when the sample of the group was the one that left it
-- guard: the tenant
-- index: executions_dead
SELECT id, error_message FROM dead_executions WHERE tenant = ?1 AND error_fp = ?2 ORDER BY id DESC LIMIT 1
