-- caller: put_jobs, to find who has a name
-- guard: only live jobs
-- index: jobs_name
SELECT id FROM live_jobs WHERE tenant = ?1 AND name = ?2
