-- caller: claim, extend: the newest versions of jobs, and what their attempts run by
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, version, state, effective_at, definition FROM jobs WHERE id = ANY($1)
