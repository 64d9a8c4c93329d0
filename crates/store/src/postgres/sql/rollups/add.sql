-- caller: every verb that ends attempts or executions, once per batch, minute, pool and target
-- guard: none: the sum counts
-- index: none
INSERT INTO rollups (minute, tenant, pool, target, succeeded, failed, dead, cancelled, skipped, lateness, duration)
SELECT *
FROM unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
            $10::bytea[], $11::bytea[])
