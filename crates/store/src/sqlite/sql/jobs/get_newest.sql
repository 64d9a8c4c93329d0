-- caller: claim, extend: the newest version of a job, and what its attempts run by
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT version, state, effective_at, definition FROM jobs WHERE id = ?1
