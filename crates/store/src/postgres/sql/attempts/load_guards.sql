-- caller: complete of what was not claimed, every verb that may give a turn on: whether it may start, by the job as it is now
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, state, version, updated_at FROM jobs WHERE id = ANY($1)
