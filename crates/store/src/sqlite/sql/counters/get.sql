-- caller: load_changed, status
-- guard: none: reads
-- index: PRIMARY KEY
SELECT value FROM counters WHERE name = ?1
