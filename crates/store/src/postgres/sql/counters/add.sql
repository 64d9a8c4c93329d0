-- caller: put_jobs: the next $2 numbers end at the answer; put_capacity, delete_capacity
-- guard: whoever adds holds the row until it commits, so that the order of numbers is that of commits
-- index: counters_pkey
UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value
