-- caller: list_skips, of a job: executions whose instants lie in its skips
-- guard: none: reads
-- index: executions_job
SELECT e.fire_at, e.kind, e.state, e.deliveries
FROM unnest($2::uuid[], $3::uuid[]) AS s (from_id, end_id)
     CROSS JOIN LATERAL (
         SELECT fire_at, kind, state, deliveries FROM executions
         WHERE job_id = $1 AND id >= s.from_id AND id < s.end_id
         ORDER BY id DESC LIMIT $4
     ) AS e
LIMIT $4
