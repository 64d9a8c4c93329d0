-- caller: list_records, of all tenants when ?2 is null
-- guard: the tenant
-- index: PRIMARY KEY
SELECT kind, tenant, id, version, body
FROM records
WHERE kind = ?1 AND (?2 IS NULL OR tenant = ?2) AND (tenant, id) < (?3, ?4)
ORDER BY tenant DESC, id DESC
LIMIT ?5
