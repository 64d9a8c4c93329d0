-- caller: status
-- guard: none: reads
-- index: PRIMARY KEY
SELECT value FROM meta WHERE key = ?1
