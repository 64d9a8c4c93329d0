-- caller: put_jobs: tells all nodes that jobs were written, once the transaction commits
-- guard: none
-- index: none
SELECT pg_notify($1, '')
