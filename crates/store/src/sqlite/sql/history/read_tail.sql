-- caller: list_executions of one job; the fold
-- guard: none: reads
-- index: INTEGER PRIMARY KEY
SELECT seq, entries FROM history_tail WHERE seq > ?1 ORDER BY seq
