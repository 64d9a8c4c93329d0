-- caller: every verb that changes states, once per batch, pool and state
-- guard: single writer
-- index: PRIMARY KEY
INSERT INTO counts (tenant, pool, state, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant, pool, state) DO UPDATE SET n = n + excluded.n
