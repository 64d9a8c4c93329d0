-- caller: get_operation
-- guard: the tenant
-- index: operations_pkey
SELECT id, tenant, kind, state, created_at, updated_at, spec, progress FROM operations WHERE id = $1 AND tenant = $2
