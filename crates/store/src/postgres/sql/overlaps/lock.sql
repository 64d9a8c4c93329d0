-- caller: every write of executions whose runs may not overlap: one writer per job, in the order of $2
-- guard: none
-- index: none
SELECT pg_advisory_xact_lock($1::int4, key) FROM unnest($2::int4[]) AS key
