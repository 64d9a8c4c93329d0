-- caller: prune: whether one of the oldest $4 executions of a job before id $2 is of version $3; or whether there are more of them
-- guard: none: reads
-- index: executions_job
SELECT coalesce(bool_or(e.job_version = $3), false) OR count(*) = $4
FROM (SELECT job_version FROM executions WHERE job_id = $1 AND id < $2 ORDER BY id LIMIT $4) AS e
