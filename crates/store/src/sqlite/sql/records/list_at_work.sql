-- caller: list_records, only of those at work, of all tenants when ?3 is null
-- guard: the tenant
-- index: records_at_work
SELECT kind, tenant, id, version, body
FROM records INDEXED BY records_at_work
WHERE at_work = 1 AND kind BETWEEN ?1 AND ?2 AND (?3 IS NULL OR tenant = ?3)
      AND (kind, tenant, id) < (?4, ?5, ?6)
ORDER BY kind DESC, tenant DESC, id DESC
LIMIT ?7
