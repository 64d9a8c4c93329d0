-- caller: the fold, for what is older than the newest pruned execution
-- guard: none: reads
-- index: PRIMARY KEY
SELECT 1 FROM executions WHERE id = ?1
