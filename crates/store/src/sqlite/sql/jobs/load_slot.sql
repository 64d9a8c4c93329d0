-- caller: load_due: all cursors of one slot, to be sorted
-- guard: none: reads
-- index: jobs_due
SELECT next_fire_at, id, rowid FROM jobs WHERE next_fire_at IS NOT NULL AND next_fire_at >> 18 = ?1
