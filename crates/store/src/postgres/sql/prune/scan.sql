-- caller: prune, for successes
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, state, finished_at FROM executions WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3
