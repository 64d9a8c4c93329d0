-- caller: delete_record
-- guard: the tenant
-- index: PRIMARY KEY
DELETE FROM records WHERE kind = ?1 AND tenant = ?2 AND id = ?3
