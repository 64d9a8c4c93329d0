-- caller: get_record
-- guard: the tenant
-- index: records_pkey
SELECT kind, tenant, id, version, body FROM records WHERE kind = $1 AND tenant = $2 AND id = $3
