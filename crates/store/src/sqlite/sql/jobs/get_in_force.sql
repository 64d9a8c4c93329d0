-- caller: complete of an unclaimed attempt; the turn of one that waited: whether it may start, by the newest version of its job
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT version, state, effective_at FROM jobs WHERE id = ?1
