-- caller: reconcile: by how much counts differ from what counting the rows gives
-- guard: none: reads
-- index: none: everything is counted
SELECT tenant, pool, state, sum(n)::int8
FROM (SELECT tenant, pool, state, count(*) AS n FROM executions GROUP BY tenant, pool, state
      UNION ALL
      SELECT tenant, pool, state, -sum(n) FROM counts GROUP BY tenant, pool, state) AS both_ways
GROUP BY tenant, pool, state
HAVING sum(n) <> 0
