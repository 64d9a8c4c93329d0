-- caller: prune
-- guard: the states $4, which are final; cursors of its job's versions that have passed it, or fire no more; nobody else is at work on it
-- index: PRIMARY KEY
WITH victims AS (SELECT e.id
                 FROM unnest($1::uuid[], $4::int2[]) AS u (id, state)
                      JOIN executions AS e ON e.id = u.id AND e.state = u.state
                 WHERE e.id >= $2 AND e.id <= $3
                   AND NOT EXISTS (SELECT 1 FROM cursors AS c WHERE c.job_id = e.job_id AND c.next_fire_at <= e.fire_at)
                   AND NOT EXISTS (SELECT 1 FROM job_versions AS v WHERE v.job_id = e.job_id AND v.next_fire_at <= e.fire_at)
                 ORDER BY e.id
                 FOR UPDATE OF e SKIP LOCKED)
DELETE FROM executions AS e USING victims AS v WHERE e.id = v.id AND e.id >= $2 AND e.id <= $3
RETURNING e.id, e.tenant, e.pool, e.job_id, e.state, e.error_fp, e.fire_at, e.kind, e.deliveries
