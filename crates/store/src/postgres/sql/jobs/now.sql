-- caller: put_jobs: the instant from which changes count, in whole milliseconds; $1 in tests
-- guard: after the locks
-- index: none
SELECT coalesce($1::int8, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8)
