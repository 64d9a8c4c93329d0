-- caller: advance, of jobs that go on firing or count their fires
-- guard: version, only forward; epochs were checked before, and nobody changes jobs meanwhile: no two write the same rows
-- index: cursors_pkey
UPDATE cursors AS c
SET next_fire_at = m.next_fire_at, fires_left = m.fires_left
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[]) AS m (job_id, version, next_fire_at, fires_left)
WHERE c.job_id = m.job_id AND c.version = m.version AND c.next_fire_at IS NOT NULL
  AND (m.next_fire_at IS NULL OR m.next_fire_at > c.next_fire_at)
