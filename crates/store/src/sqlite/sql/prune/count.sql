-- caller: prune: how many executions are in a state
-- guard: none: reads
-- index: none: a row per tenant, pool and state is scanned
SELECT coalesce(sum(n), 0) FROM counts WHERE state = ?1
