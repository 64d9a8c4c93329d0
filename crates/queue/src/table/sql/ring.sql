-- caller: bell
-- guard: none
-- index: none
SELECT pg_notify($1::text, '')
