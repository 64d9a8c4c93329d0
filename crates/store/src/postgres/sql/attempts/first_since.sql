-- caller: claim, extend: when the first attempt after a replay started
-- guard: none: reads
-- index: PRIMARY KEY
SELECT a.execution_id, min(a.started_at)
FROM unnest($3::uuid[], $4::int8[]) AS u (id, attempts_from)
     JOIN attempts AS a ON a.execution_id = u.id AND a.attempt > u.attempts_from
WHERE a.execution_id >= $1 AND a.execution_id <= $2
GROUP BY a.execution_id
