-- caller: advance, of jobs that fire no more and count no fires
-- guard: version; epochs were checked before, and nobody changes jobs meanwhile: no two write the same rows
-- index: cursors_pkey
DELETE FROM cursors AS c
USING unnest($1::uuid[], $2::int8[]) AS m (job_id, version)
WHERE c.job_id = m.job_id AND c.version = m.version AND c.next_fire_at IS NOT NULL
