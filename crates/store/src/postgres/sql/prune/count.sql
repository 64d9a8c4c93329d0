-- caller: prune: how many executions are in which state
-- guard: none: reads
-- index: none: a few rows per tenant, pool and state are scanned
SELECT state, coalesce(sum(n), 0)::int8 FROM counts GROUP BY state
