-- caller: advance, of a version that was superseded
-- guard: the version, and only forward; not beyond its end, unless ?5: the mover knows it. The shard's epoch was checked before
-- index: sqlite_autoindex_job_versions_1 (job_id, version)
UPDATE job_versions
SET next_fire_at = ?3, fires_left = ?4
WHERE job_id = ?1 AND version = ?2 AND next_fire_at IS NOT NULL AND (?3 IS NULL OR ?3 > next_fire_at) AND (?5 OR ?3 <= ended_at)
