-- caller: reports
-- guard: the tenant
-- index: PRIMARY KEY
SELECT l.seq, l.at, l.level, l.message
FROM logs AS l
WHERE l.execution_id = $1 AND l.seq > $3 AND EXISTS (SELECT 1 FROM executions AS e WHERE e.id = $1 AND e.tenant = $2)
ORDER BY l.seq
LIMIT $4
