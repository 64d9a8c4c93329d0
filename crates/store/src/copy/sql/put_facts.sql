-- caller: copy
-- guard: none
-- index: meta_pkey
INSERT INTO meta (key, value)
SELECT key, value FROM unnest($1::text[], $2::text[]) AS u (key, value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
