-- caller: list_skips, of an execution whose instant lies in a skip
-- guard: none: reads
-- index: PRIMARY KEY
SELECT kind, state, deliveries FROM executions WHERE id = ?1
