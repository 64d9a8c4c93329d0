-- caller: reconcile
-- guard: none: reads
-- index: none: a row per tenant, pool and state is scanned
SELECT tenant, pool, state, n FROM counts
