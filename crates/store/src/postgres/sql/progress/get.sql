-- caller: progress
-- guard: the tenant
-- index: PRIMARY KEY
SELECT p.fraction, p.message, p.checkpoint, p.at
FROM progress AS p
WHERE p.execution_id = $1 AND EXISTS (SELECT 1 FROM executions AS e WHERE e.id = $1 AND e.tenant = $2)
