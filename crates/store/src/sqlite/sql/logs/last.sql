-- caller: extend, complete: how many lines an execution has
-- guard: none: reads
-- index: PRIMARY KEY
SELECT coalesce(max(seq), 0) FROM logs WHERE execution_id = ?1
