-- caller: put_operation, of one that must not be there
-- guard: no row of this id
-- index: operations_pkey
INSERT INTO operations (id, tenant, kind, state, created_at, updated_at, spec, progress)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO NOTHING
