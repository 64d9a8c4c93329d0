-- caller: claim, complete: once per batch and pool that has slots
-- guard: the tenant
-- index: PRIMARY KEY
SELECT n FROM counts WHERE tenant = ?1 AND pool = ?2 AND state = ?3
