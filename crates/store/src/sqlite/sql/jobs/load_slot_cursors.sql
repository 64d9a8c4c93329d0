-- caller: load_due: the cursors of a slot between two positions, to be sorted
-- guard: none: reads
-- index: jobs_due
SELECT next_fire_at, id, rowid FROM jobs
WHERE next_fire_at IS NOT NULL AND next_fire_at >> 18 = ?1
  AND (next_fire_at, id) > (?2, ?3) AND (next_fire_at, id) <= (?4, ?5)
