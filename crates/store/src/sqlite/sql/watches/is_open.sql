-- caller: break_watches: whether what a watch of kind ?2 waits for has not happened: the start (0), or the end
-- guard: none: reads
-- index: PRIMARY KEY
SELECT 1 FROM open_executions
WHERE id = ?1 AND watched & (1 << ?2) <> 0 AND (fence = 0 OR ?2 <> 0)
