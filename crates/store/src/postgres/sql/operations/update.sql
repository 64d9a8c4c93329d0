-- caller: put_operation, of one that must be there
-- guard: the tenant and state $3
-- index: operations_pkey
UPDATE operations SET state = $4, updated_at = $5, spec = $6, progress = $7 WHERE id = $1 AND tenant = $2 AND state = $3
