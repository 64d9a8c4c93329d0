-- caller: claim, complete of what was not claimed, advance: before anything is read
-- guard: whoever changes jobs holds this alone
-- index: none
SELECT pg_advisory_xact_lock_shared($1::int4, 0)
