-- caller: open
-- guard: none
-- index: none
SELECT to_regclass('ready') IS NOT NULL
