-- caller: list_records, of all tenants when ?3 is null
-- guard: the tenant
-- index: PRIMARY KEY
SELECT kind, tenant, id, version, body
FROM records
WHERE kind BETWEEN ?1 AND ?2 AND (?3 IS NULL OR tenant = ?3)
      AND (kind, tenant, id) < (?4, ?5, ?6)
ORDER BY kind DESC, tenant DESC, id DESC
LIMIT ?7
