-- caller: advance; answers how many were moved
-- guard: version, only forward; epochs were checked before. Rows are locked in the order of their ids
-- index: cursors_pkey
WITH locked AS MATERIALIZED (
    SELECT c.job_id, m.next_fire_at, m.fires_left
    FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) AS m (job_id, version, next_fire_at, fires_left)
         JOIN cursors AS c ON c.job_id = m.job_id
    WHERE c.version = m.version AND c.next_fire_at IS NOT NULL
      AND (m.next_fire_at IS NULL OR m.next_fire_at > c.next_fire_at)
    ORDER BY c.job_id
    FOR UPDATE OF c
), gone AS (
    DELETE FROM cursors AS c USING locked
    WHERE c.job_id = locked.job_id AND locked.next_fire_at IS NULL AND locked.fires_left IS NULL
), moved AS (
    UPDATE cursors AS c
    SET next_fire_at = locked.next_fire_at, fires_left = locked.fires_left
    FROM locked
    WHERE c.job_id = locked.job_id AND (locked.next_fire_at IS NOT NULL OR locked.fires_left IS NOT NULL)
)
SELECT count(*) FROM locked
