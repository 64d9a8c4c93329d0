-- caller: agree
-- guard: the first value stays
-- index: meta_pkey
INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = meta.value RETURNING value
