-- caller: replay: what is done, where and for whom, by the job as it is now; not of a deleted one (?2)
-- guard: none: reads
-- index: sqlite_autoindex_jobs_1 (id)
SELECT action_kind, target, pool, priority FROM jobs WHERE id = ?1 AND state <> ?2
