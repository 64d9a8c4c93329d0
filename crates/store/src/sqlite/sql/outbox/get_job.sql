-- caller: emit: what an event says of its job, and whether its tags are wanted
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT name, tags FROM jobs WHERE id = ?1
