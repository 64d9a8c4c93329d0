-- caller: load_operations
-- guard: none: reads; state 0 is at work
-- index: operations_running
SELECT id, tenant, kind, state, created_at, updated_at, spec, progress
FROM operations
WHERE state = 0
ORDER BY id
LIMIT $1
