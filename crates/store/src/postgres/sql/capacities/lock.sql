-- caller: claim, complete of what was not claimed: the pools that have limits; who holds the row counts its slots alone
-- guard: the tenant; scope $3
-- index: PRIMARY KEY
SELECT c.tenant, c.name, c.slots, c.paused
FROM unnest($1::int8[], $2::text[]) AS u (tenant, name)
     JOIN capacities AS c ON c.tenant = u.tenant AND c.scope = $3 AND c.name = u.name
WHERE c.slots IS NOT NULL OR c.paused
ORDER BY c.tenant, c.name
FOR UPDATE OF c
