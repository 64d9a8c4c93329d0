-- caller: reconcile: by how much groups of dead executions differ from what counting them gives
-- guard: none: reads
-- index: executions_dead
SELECT tenant, fingerprint, sum(n)::int8
FROM (SELECT tenant, error_fp AS fingerprint, count(*) AS n
      FROM dead_executions
      WHERE error_fp IS NOT NULL
      GROUP BY tenant, error_fp
      UNION ALL
      SELECT tenant, fingerprint, -n FROM dead_groups) AS both_ways
GROUP BY tenant, fingerprint
HAVING sum(n) <> 0
ORDER BY tenant, fingerprint
