-- caller: load_changed, status, complete of an unclaimed attempt
-- guard: none: reads
-- index: PRIMARY KEY
SELECT value FROM counters WHERE name = ?1
