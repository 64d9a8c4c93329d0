-- caller: fold: at most $1 rows become one per tenant, pool and state; answers how many they were
-- guard: one statement, so that everybody sees the rows or their sum
-- index: none: counts are few once they are folded
WITH shared AS (SELECT tenant, pool, state FROM counts GROUP BY tenant, pool, state HAVING count(*) > 1),
     gone AS (DELETE FROM counts
              WHERE ctid = ANY (ARRAY(SELECT c.ctid
                                      FROM shared AS s
                                           JOIN counts AS c ON (c.tenant, c.pool, c.state) = (s.tenant, s.pool, s.state)
                                      ORDER BY s.tenant, s.pool, s.state
                                      LIMIT $1))
              RETURNING tenant, pool, state, n),
     sums AS (INSERT INTO counts (tenant, pool, state, n)
              SELECT tenant, pool, state, sum(n)::int8 FROM gone GROUP BY tenant, pool, state HAVING sum(n) <> 0)
SELECT count(*) FROM gone
