-- caller: put_jobs, to judge a write
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT tenant, version, state, name FROM jobs WHERE id = ?1
