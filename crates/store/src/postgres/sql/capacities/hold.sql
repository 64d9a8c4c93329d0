-- caller: put_record, of limits
-- guard: none: waits for claims that have not seen the limit, and holds up those to come
-- index: none: an advisory lock
SELECT pg_advisory_xact_lock($1::int4, 0)
