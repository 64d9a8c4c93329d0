-- caller: prune
-- guard: none
-- index: skips_recorded
DELETE FROM skips WHERE ctid = ANY (ARRAY(SELECT ctid FROM skips WHERE recorded_at < $1 ORDER BY recorded_at LIMIT $2))
