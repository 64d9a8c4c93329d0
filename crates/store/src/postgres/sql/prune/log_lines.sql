-- caller: prune: how many lines of log hang on executions
-- guard: none: reads
-- index: PRIMARY KEY
SELECT execution_id, count(*) FROM logs
WHERE execution_id = ANY($1) AND execution_id >= $2 AND execution_id <= $3
GROUP BY execution_id
