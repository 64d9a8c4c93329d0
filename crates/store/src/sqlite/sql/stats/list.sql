-- caller: stats
-- guard: the tenant; with a sign, because as a constant it would spoil the order of the key
-- index: PRIMARY KEY
SELECT minute, tenant, pool, target, succeeded, failed, dead, cancelled, skipped, lateness, duration
FROM rollups
WHERE minute >= ?1 AND minute < ?2 AND +tenant = ?3 AND (?4 IS NULL OR pool = ?4) AND (?5 IS NULL OR target = ?5)
ORDER BY minute, tenant, pool, target
LIMIT ?6
