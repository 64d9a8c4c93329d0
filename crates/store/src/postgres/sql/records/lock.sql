-- caller: delete_record of an endpoint, before each step
-- guard: the tenant
-- index: records_pkey
SELECT 1 FROM records WHERE kind = $1 AND tenant = $2 AND id = $3 FOR UPDATE
