-- caller: put_capacity
-- guard: none: the last one counts
-- index: PRIMARY KEY
INSERT OR REPLACE INTO capacities (tenant, scope, name, slots, per_second_milli, paused, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
