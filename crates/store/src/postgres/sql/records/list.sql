-- caller: list_records, of all tenants when $3 is null
-- guard: the tenant
-- index: records_pkey
SELECT kind, tenant, id, version, body
FROM records
WHERE kind BETWEEN $1 AND $2 AND ($3::int8 IS NULL OR tenant = $3)
      AND (kind, tenant, id) < ($4::int2, $5::int8, $6::text COLLATE "C")
ORDER BY kind DESC, tenant DESC, id DESC
LIMIT $7
