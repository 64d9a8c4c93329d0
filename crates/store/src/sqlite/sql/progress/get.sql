-- caller: progress
-- guard: the tenant
-- index: PRIMARY KEY
SELECT p.fraction, p.message, p.checkpoint, p.at
FROM progress AS p JOIN executions AS e ON e.id = p.execution_id
WHERE p.execution_id = ?1 AND e.tenant = ?2
