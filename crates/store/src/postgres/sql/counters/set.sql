-- caller: put_jobs, for the last change
-- guard: whoever changes jobs has taken its number, and holds that row
-- index: counters_pkey
UPDATE counters SET value = $2 WHERE name = $1
