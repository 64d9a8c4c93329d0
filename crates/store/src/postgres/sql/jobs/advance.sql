-- caller: advance
-- guard: version, state $5, only forward; epochs were checked before. Rows are locked in the order of their ids
-- index: jobs_pkey
WITH locked AS MATERIALIZED (
    SELECT j.id, m.next_fire_at, m.fires_left
    FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) AS m (id, version, next_fire_at, fires_left)
         JOIN jobs AS j ON j.id = m.id
    WHERE j.version = m.version AND j.state = $5 AND j.next_fire_at IS NOT NULL
      AND (m.next_fire_at IS NULL OR m.next_fire_at > j.next_fire_at)
    ORDER BY j.id
    FOR NO KEY UPDATE OF j
)
UPDATE jobs AS j
SET next_fire_at = locked.next_fire_at, fires_left = locked.fires_left
FROM locked
WHERE j.id = locked.id
