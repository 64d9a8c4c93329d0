-- caller: prune
-- guard: none
-- index: PRIMARY KEY
DELETE FROM rollups
WHERE (minute, tenant, pool, target) IN (SELECT minute, tenant, pool, target FROM rollups WHERE minute < ?1 ORDER BY minute LIMIT ?2)
