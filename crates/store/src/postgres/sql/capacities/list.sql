-- caller: list_capacities, of all tenants when $1 is null
-- guard: the tenant
-- index: none: the whole table is read in the order of its key
SELECT tenant, scope, name, slots, per_second_milli, paused, updated_at
FROM capacities
WHERE $1::int8 IS NULL OR tenant = $1
ORDER BY tenant, scope, name
