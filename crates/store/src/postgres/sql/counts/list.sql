-- caller: counts, of all tenants when $1 is null
-- guard: the tenant
-- index: none: the whole table is read; it is folded now and then
SELECT tenant, pool, state, sum(n)::int8
FROM counts
WHERE $1::int8 IS NULL OR tenant = $1
GROUP BY tenant, pool, state
HAVING sum(n) > 0
ORDER BY tenant, pool COLLATE "C", state
