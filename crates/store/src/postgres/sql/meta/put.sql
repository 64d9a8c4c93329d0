-- caller: open
-- guard: none
-- index: meta_pkey
INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
