-- caller: open
-- guard: none: reads
-- index: meta_pkey
SELECT value FROM meta WHERE key = $1
