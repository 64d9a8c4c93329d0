-- caller: delete_endpoint, before each step
-- guard: the tenant
-- index: endpoints_pkey
SELECT 1 FROM endpoints WHERE id = $1 AND tenant = $2 FOR UPDATE
