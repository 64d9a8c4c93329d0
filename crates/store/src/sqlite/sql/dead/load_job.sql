-- caller: replay: what is done, where and for whom, by the newest version of the job; not of a deleted one (?2)
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT version, firing FROM jobs WHERE id = ?1 AND state <> ?2
