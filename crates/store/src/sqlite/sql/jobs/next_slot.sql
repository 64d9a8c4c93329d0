-- caller: load_due: the first slot from ?1 on that has cursors
-- guard: none: reads
-- index: jobs_due
SELECT next_fire_at >> 18 FROM jobs
WHERE next_fire_at IS NOT NULL AND next_fire_at >> 18 >= ?1
ORDER BY next_fire_at >> 18
LIMIT 1
