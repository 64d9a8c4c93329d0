-- caller: load_operations
-- guard: none: reads
-- index: operations_running
SELECT id, tenant, kind, state, created_at, updated_at, spec, progress
FROM running_operations
ORDER BY id
LIMIT ?1
