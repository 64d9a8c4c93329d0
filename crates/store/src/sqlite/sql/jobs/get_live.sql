-- caller: put_jobs, to find who has a name
-- guard: only live jobs (not in state 2)
-- index: jobs_name
SELECT id FROM jobs WHERE tenant = ?1 AND name = ?2 AND state <> 2
