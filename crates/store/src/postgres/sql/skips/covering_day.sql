-- caller: prune, of a day that is dropped, from id $1 to $2 and instant $3 to $4: the skips in which executions of it lie
-- guard: none: reads; nobody writes executions of the day
-- index: none: skips are few; executions_job
SELECT s.job_id, s.to_at, s.from_at, s.reason, s.tenant, s.recorded_at, e.fire_at, e.kind, e.state, e.deliveries
FROM skips AS s
     JOIN executions AS e ON e.job_id = s.job_id AND e.id >= $1 AND e.id < $2 AND e.fire_at >= s.from_at AND e.fire_at <= s.to_at
WHERE s.to_at >= $3 AND s.from_at < $4
