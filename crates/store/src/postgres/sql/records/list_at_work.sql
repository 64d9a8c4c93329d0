-- caller: list_records, only of those at work, of all tenants when $3 is null
-- guard: the tenant
-- index: records_at_work
SELECT kind, tenant, id, version, body
FROM records
WHERE at_work AND kind BETWEEN $1 AND $2 AND ($3::int8 IS NULL OR tenant = $3)
      AND (kind, tenant, id) < ($4::int2, $5::int8, $6::text COLLATE "C")
ORDER BY kind DESC, tenant DESC, id DESC
LIMIT $7
