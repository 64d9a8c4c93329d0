-- caller: load_changed
-- guard: none: reads
-- index: counters_pkey
SELECT value FROM counters WHERE name = $1
