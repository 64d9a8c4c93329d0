-- caller: extend, complete: how many lines executions have
-- guard: their rows are locked
-- index: PRIMARY KEY
SELECT execution_id, max(seq)
FROM logs
WHERE execution_id = ANY($1) AND execution_id >= $2 AND execution_id <= $3
GROUP BY execution_id
