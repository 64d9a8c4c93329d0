-- caller: counts, of all tenants when ?1 is null
-- guard: the tenant
-- index: none: the whole table is read in the order of its key
SELECT tenant, pool, state, n FROM counts WHERE (?1 IS NULL OR tenant = ?1) AND n > 0 ORDER BY tenant, pool, state
