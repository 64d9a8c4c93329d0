-- caller: complete of what was not claimed, every verb that may give a turn on: whether it may start, by the newest version of its job
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, version, state, effective_at FROM jobs WHERE id = ANY($1)
