-- caller: list_skips
-- guard: the tenant
-- index: PRIMARY KEY
SELECT job_id, to_at, from_at, reason, tenant, recorded_at
FROM skips
WHERE job_id = ?1 AND tenant = ?2 AND to_at >= ?3 AND from_at <= ?4
ORDER BY to_at DESC, from_at DESC
LIMIT ?5
