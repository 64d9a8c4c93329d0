-- caller: advance
-- guard: version, state, and only forward; the shard's epoch was checked before
-- index: sqlite_autoindex_jobs_1 (id)
UPDATE jobs
SET next_fire_at = ?3, fires_left = ?4
WHERE id = ?1 AND version = ?2 AND state = ?5 AND next_fire_at IS NOT NULL AND (?3 IS NULL OR ?3 > next_fire_at)
