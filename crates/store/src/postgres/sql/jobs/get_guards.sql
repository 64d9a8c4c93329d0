-- caller: put_jobs, to judge writes; whoever moves their cursors waits
-- guard: none: the caller judges
-- index: jobs_pkey
SELECT id, tenant, version, state, name FROM jobs WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
