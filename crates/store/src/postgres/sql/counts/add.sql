-- caller: every verb that changes states, once per batch, pool and state
-- guard: none: the sum counts
-- index: none
INSERT INTO counts (tenant, pool, state, n) SELECT * FROM unnest($1::int8[], $2::text[], $3::int2[], $4::int8[])
