-- caller: delete_endpoint
-- guard: the tenant
-- index: endpoints_pkey
DELETE FROM endpoints WHERE id = $1 AND tenant = $2
