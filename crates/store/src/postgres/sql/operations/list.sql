-- caller: list_operations
-- guard: the tenant
-- index: operations_tenant
SELECT id, tenant, kind, state, created_at, updated_at, spec, progress
FROM operations
WHERE tenant = $1 AND id < $2
ORDER BY id DESC
LIMIT $3
