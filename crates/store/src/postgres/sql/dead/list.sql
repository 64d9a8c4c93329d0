-- caller: dead_groups
-- guard: the tenant
-- index: dead_groups_recent
SELECT fingerprint, target, kind, message, n, first_at, last_at, sample
FROM dead_groups
WHERE tenant = $1 AND n > 0
ORDER BY last_at DESC
LIMIT $2
