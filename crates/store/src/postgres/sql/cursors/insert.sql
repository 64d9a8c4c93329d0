-- caller: put_jobs, for new jobs
-- guard: no row of this job: the job is new
-- index: cursors_pkey would find a conflict
INSERT INTO cursors (job_id, version, next_fire_at, fires_left, shard)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int2[])
