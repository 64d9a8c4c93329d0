-- caller: load_due: whether more than ?4 cursors of a slot come after a position
-- guard: none: reads
-- index: jobs_due
SELECT 1 FROM jobs
WHERE next_fire_at IS NOT NULL AND next_fire_at >> 18 = ?1 AND (next_fire_at, id) > (?2, ?3)
LIMIT 1 OFFSET ?4
