-- caller: list_skips, of a job: executions whose instants lie in its skips
-- guard: none: reads
-- index: PRIMARY KEY of history and executions
SELECT e.fire_at, e.kind, e.state, e.deliveries
FROM unnest($2::uuid[], $3::uuid[]) AS s (from_id, end_id)
     CROSS JOIN LATERAL (
         SELECT x.fire_at, x.kind, x.state, x.deliveries
         FROM history AS h JOIN executions AS x ON x.id = h.execution_id
         WHERE h.job_id = $1 AND h.execution_id >= s.from_id AND h.execution_id < s.end_id
           AND x.id >= s.from_id AND x.id < s.end_id
         ORDER BY h.execution_id DESC LIMIT $4
     ) AS e
LIMIT $4
