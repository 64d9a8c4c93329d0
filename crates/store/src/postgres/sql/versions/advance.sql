-- caller: advance, of versions that were superseded
-- guard: the version, and only forward; not beyond its end, unless the mover knows it; epochs were checked before. Rows are locked in the order of their keys
-- index: job_versions_pkey
WITH locked AS MATERIALIZED (
    SELECT v.job_id, v.version, m.next_fire_at, m.fires_left
    FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::bool[])
         AS m (job_id, version, next_fire_at, fires_left, superseded)
         JOIN job_versions AS v ON v.job_id = m.job_id AND v.version = m.version
    WHERE v.next_fire_at IS NOT NULL AND (m.next_fire_at IS NULL OR m.next_fire_at > v.next_fire_at)
      AND (m.superseded OR m.next_fire_at <= v.ended_at)
    ORDER BY v.job_id, v.version
    FOR NO KEY UPDATE OF v
)
UPDATE job_versions AS v
SET next_fire_at = locked.next_fire_at, fires_left = locked.fires_left
FROM locked
WHERE v.job_id = locked.job_id AND v.version = locked.version
