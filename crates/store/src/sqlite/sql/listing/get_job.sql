-- caller: list_executions, for filters that ask for a job's name or tags
-- guard: the tenant of its executions was compared
-- index: sqlite_autoindex_jobs_1 (id)
SELECT name, tags FROM jobs WHERE id = ?1
