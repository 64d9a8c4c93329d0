-- caller: claim, complete: once per batch and pool
-- guard: the tenant
-- index: PRIMARY KEY
SELECT slots, paused FROM capacities WHERE tenant = ?1 AND scope = ?2 AND name = ?3
