-- caller: replay, bury, prune: groups that lose members
-- guard: the tenants
-- index: PRIMARY KEY
SELECT g.tenant, g.fingerprint, g.n, g.sample
FROM unnest($1::int8[], $2::int8[]) AS u (tenant, fingerprint)
     JOIN dead_groups AS g ON g.tenant = u.tenant AND g.fingerprint = u.fingerprint
ORDER BY g.tenant, g.fingerprint
FOR UPDATE OF g
