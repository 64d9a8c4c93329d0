-- caller: reports
-- guard: the tenant
-- index: PRIMARY KEY
SELECT l.seq, l.at, l.level, l.message
FROM executions AS e CROSS JOIN logs AS l ON l.execution_id = e.id
WHERE e.id = ?1 AND e.tenant = ?2 AND l.seq > ?3
ORDER BY l.seq
LIMIT ?4
