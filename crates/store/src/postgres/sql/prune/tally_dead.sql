-- caller: prune, of a day: how many died of what
-- guard: none: reads; the day is sealed when it counts
-- index: executions_dead
SELECT tenant, error_fp, count(*)
FROM dead_executions
WHERE id >= $1 AND id < $2 AND error_fp IS NOT NULL
GROUP BY tenant, error_fp
ORDER BY tenant, error_fp
