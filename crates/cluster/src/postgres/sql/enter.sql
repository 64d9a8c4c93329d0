-- caller: a new session of a member, before its row is written: takes the member's lock, and tells the session's number
-- guard: shared, so that two names with one hash only cost the quick way to notice a death
-- index: none
SELECT pg_try_advisory_lock_shared($1, $2) AS is_locked, pg_backend_pid() AS pid
