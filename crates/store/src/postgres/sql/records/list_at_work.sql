-- caller: list_records, only of those at work, of all tenants when $2 is null
-- guard: the tenant
-- index: records_at_work
SELECT kind, tenant, id, version, body
FROM records
WHERE at_work AND kind = $1 AND ($2::int8 IS NULL OR tenant = $2) AND (tenant, id) < ($3::int8, $4::text COLLATE "C")
ORDER BY tenant DESC, id DESC
LIMIT $5
