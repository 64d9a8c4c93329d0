-- caller: copy; open, which refuses a copy that is not done
-- guard: none: reads
-- index: meta_pkey
SELECT value FROM meta WHERE key = $1
