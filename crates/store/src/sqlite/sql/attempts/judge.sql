-- caller: complete of an unclaimed attempt; the turn of one that waited: whether it may start, by the job as it is now
-- guard: none: reads; judged and guarded by the write that follows
-- index: PRIMARY KEY
SELECT e.kind, e.job_version, e.wake_at, e.state, e.attempt, e.started_at, e.deliveries, e.tenant, e.job_id, e.pool, e.target,
       e.overlap, e.watched, e.fire_at, e.first_started_at, j.state, j.version, j.updated_at
FROM executions AS e LEFT JOIN jobs AS j ON j.id = e.job_id
WHERE e.id = ?1
