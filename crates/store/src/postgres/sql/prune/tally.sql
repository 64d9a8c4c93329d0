-- caller: prune, of a day: what it holds
-- guard: none: reads; the day is sealed when it counts
-- index: none: all of one partition is counted
SELECT tenant, pool, state, count(*), max(finished_at)
FROM executions
WHERE id >= $1 AND id < $2
GROUP BY tenant, pool, state
