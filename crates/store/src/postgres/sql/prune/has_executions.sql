-- caller: prune: whether one of the oldest $4 executions of a job before id $2 is of version $3; or whether there are more of them
-- guard: none: reads
-- index: PRIMARY KEY of both
SELECT coalesce(bool_or(e.job_version = $3), false) OR count(*) = $4
FROM (SELECT e.job_version
      FROM history AS h JOIN executions AS e ON e.id = h.execution_id
      WHERE h.job_id = $1 AND h.execution_id < $2 AND e.id < $2
      ORDER BY h.execution_id
      LIMIT $4) AS e
