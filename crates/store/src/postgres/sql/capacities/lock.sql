-- caller: claim, complete of what was not claimed: the pools that have limits; who holds the row counts its slots alone
-- guard: the tenant; kind $3 is a pool
-- index: PRIMARY KEY
SELECT c.tenant, c.id, c.slots, c.paused
FROM unnest($1::int8[], $2::text[]) AS u (tenant, name)
     JOIN records AS c ON c.tenant = u.tenant AND c.kind = $3 AND c.id = u.name
WHERE c.slots IS NOT NULL OR c.paused
ORDER BY c.tenant, c.id
FOR UPDATE OF c
