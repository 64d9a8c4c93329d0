-- caller: claim: runs start, or wait for their turn; every verb that ends one: another has the turn
-- guard: overlap::decide in the same transaction; their jobs are locked
-- index: PRIMARY KEY
INSERT INTO "overlaps" (job_id, execution_id, started)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bool[])
ON CONFLICT (job_id, execution_id) DO UPDATE SET started = excluded.started
