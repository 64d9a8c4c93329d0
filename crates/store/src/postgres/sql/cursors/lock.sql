-- caller: put_jobs, to judge changes; whoever moves these cursors, by a release that does not share the lock of jobs, waits
-- guard: none: the caller judges; the rows of the jobs are locked
-- index: cursors_pkey
SELECT job_id, next_fire_at, fires_left
FROM cursors
WHERE job_id = ANY($1)
ORDER BY job_id
FOR UPDATE
