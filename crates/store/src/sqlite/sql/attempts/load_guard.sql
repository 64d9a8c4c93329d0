-- caller: complete of an unclaimed attempt; the turn of one that waited: whether it may start, by the job as it is now
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT state, version, updated_at FROM jobs WHERE id = ?1
