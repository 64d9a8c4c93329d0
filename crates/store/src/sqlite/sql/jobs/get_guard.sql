-- caller: put_jobs, to judge a write
-- guard: none: reads
-- index: PRIMARY KEY
SELECT tenant, version, state FROM jobs WHERE id = ?1
