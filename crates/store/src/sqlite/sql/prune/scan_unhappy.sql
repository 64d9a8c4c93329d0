-- caller: prune, for final states other than success
-- guard: none: reads
-- index: executions_unhappy
SELECT id, state, finished_at FROM unhappy_executions WHERE id > ?1 AND id < ?2 ORDER BY id
