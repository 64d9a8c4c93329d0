-- caller: prune, of a day that is dropped, from id $1 to $2 and instant $3 to $4: what a skip covers, or a pause that is not over will
-- guard: none: reads; nobody writes executions of the day
-- index: none: skips and paused jobs are few; PRIMARY KEY of history and executions
SELECT e.job_id, e.fire_at, e.tenant, e.kind, e.state, e.deliveries
FROM skips AS s
     JOIN history AS h ON h.job_id = s.job_id AND h.execution_id >= $1 AND h.execution_id < $2
     JOIN executions AS e ON e.id = h.execution_id AND e.id >= $1 AND e.id < $2 AND e.fire_at >= s.from_at AND e.fire_at <= s.to_at
WHERE s.to_at >= $3 AND s.from_at < $4
UNION ALL
SELECT e.job_id, e.fire_at, e.tenant, e.kind, e.state, e.deliveries
FROM paused_jobs AS j
     JOIN history AS h ON h.job_id = j.id AND h.execution_id >= $1 AND h.execution_id < $2
     JOIN executions AS e ON e.id = h.execution_id AND e.id >= $1 AND e.id < $2 AND (e.fire_at > j.effective_at OR j.version = 1)
WHERE j.effective_at < $4 OR j.version = 1
