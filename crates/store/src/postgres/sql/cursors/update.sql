-- caller: put_jobs, for jobs that are there
-- guard: the rows are locked, those of their jobs too; a job may have had none
-- index: cursors_pkey
WITH w AS (
    SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int2[])
                  AS w (job_id, version, next_fire_at, fires_left, shard)
), gone AS (
    DELETE FROM cursors AS c USING w WHERE c.job_id = w.job_id AND w.next_fire_at IS NULL AND w.fires_left IS NULL
)
INSERT INTO cursors (job_id, version, next_fire_at, fires_left, shard)
SELECT * FROM w WHERE next_fire_at IS NOT NULL OR fires_left IS NOT NULL
ON CONFLICT (job_id) DO UPDATE
SET version = excluded.version, next_fire_at = excluded.next_fire_at, fires_left = excluded.fires_left
