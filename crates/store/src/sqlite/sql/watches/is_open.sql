-- caller: break_watches: whether what a watch of kind ?2 waits for has not happened: the start (0), or the end
-- guard: none: reads; every state from 4 on is final
-- index: PRIMARY KEY
SELECT 1 FROM executions
WHERE id = ?1 AND watched & (1 << ?2) <> 0 AND state < 4 AND (fence = 0 OR ?2 <> 0)
