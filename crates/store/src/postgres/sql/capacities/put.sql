-- caller: put_capacity
-- guard: none: the last one counts
-- index: capacities_pkey
INSERT INTO capacities (tenant, scope, name, slots, per_second_milli, paused, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, scope, name) DO UPDATE
SET slots = excluded.slots, per_second_milli = excluded.per_second_milli, paused = excluded.paused,
    updated_at = excluded.updated_at
