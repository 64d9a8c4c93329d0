-- caller: load_changed, complete of an unclaimed attempt
-- guard: none: reads
-- index: counters_pkey
SELECT value FROM counters WHERE name = $1
