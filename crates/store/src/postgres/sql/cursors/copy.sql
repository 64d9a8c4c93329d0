-- caller: put_jobs, for new jobs in bulk
-- guard: no row of this job: the job is new
-- index: cursors_pkey would find a conflict
COPY cursors (job_id, version, next_fire_at, fires_left, shard) FROM STDIN BINARY
