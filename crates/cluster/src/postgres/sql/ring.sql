-- caller: whoever has changed something that others wait for
-- guard: none; a doorbell may be missed
-- index: none
SELECT pg_notify($1, '')
