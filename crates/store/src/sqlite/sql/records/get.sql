-- caller: get_record
-- guard: the tenant
-- index: PRIMARY KEY
SELECT kind, tenant, id, version, body FROM records WHERE kind = ?1 AND tenant = ?2 AND id = ?3
