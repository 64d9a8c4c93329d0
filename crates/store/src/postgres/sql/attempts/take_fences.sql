-- caller: claim, complete of what was not claimed: so many fences, once the rows are locked
-- guard: a sequence gives no number twice
-- index: none
SELECT nextval('fences') FROM generate_series(1, $1::int8)
