-- caller: list_records, only of those at work, of all tenants when ?2 is null
-- guard: the tenant
-- index: records_at_work
SELECT kind, tenant, id, version, body
FROM records INDEXED BY records_at_work
WHERE at_work = 1 AND kind = ?1 AND (?2 IS NULL OR tenant = ?2) AND (tenant, id) < (?3, ?4)
ORDER BY tenant DESC, id DESC
LIMIT ?5
