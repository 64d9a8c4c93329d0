-- caller: delete_endpoint
-- guard: the tenant
-- index: PRIMARY KEY
DELETE FROM endpoints WHERE id = ?1 AND tenant = ?2
