-- caller: delete_capacity
-- guard: the tenant
-- index: capacities_pkey
DELETE FROM capacities WHERE tenant = $1 AND scope = $2 AND name = $3
