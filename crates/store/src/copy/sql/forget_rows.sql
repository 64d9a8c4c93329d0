-- caller: copy, when it begins anew and when it is done
-- guard: none
-- index: none: a table of few rows
DELETE FROM meta WHERE key LIKE 'copy/%'
