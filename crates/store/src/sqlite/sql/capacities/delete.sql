-- caller: delete_capacity
-- guard: the tenant
-- index: PRIMARY KEY
DELETE FROM capacities WHERE tenant = ?1 AND scope = ?2 AND name = ?3
