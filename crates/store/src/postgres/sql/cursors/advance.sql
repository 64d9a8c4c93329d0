-- caller: advance; answers how many were moved
-- guard: version, only forward; epochs were checked before, and nobody changes jobs meanwhile: no two write the same rows
-- index: cursors_pkey
WITH m AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) AS m (job_id, version, next_fire_at, fires_left)
), gone AS (
    DELETE FROM cursors AS c USING m
    WHERE c.job_id = m.job_id AND c.version = m.version AND c.next_fire_at IS NOT NULL
      AND m.next_fire_at IS NULL AND m.fires_left IS NULL
    RETURNING c.job_id
), moved AS (
    UPDATE cursors AS c
    SET next_fire_at = m.next_fire_at, fires_left = m.fires_left
    FROM m
    WHERE c.job_id = m.job_id AND c.version = m.version AND c.next_fire_at IS NOT NULL
      AND (m.next_fire_at > c.next_fire_at OR (m.next_fire_at IS NULL AND m.fires_left IS NOT NULL))
    RETURNING c.job_id
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM moved)
