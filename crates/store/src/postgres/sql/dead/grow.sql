-- caller: complete: executions died of the same thing
-- guard: none: added to what is there, in the order of the keys
-- index: PRIMARY KEY
INSERT INTO dead_groups AS g (tenant, fingerprint, target, kind, message, n, first_at, last_at, sample)
SELECT tenant, fingerprint, target, kind, message, n, first_at, last_at, sample
FROM unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::int8[], $9::uuid[])
     AS u (tenant, fingerprint, target, kind, message, n, first_at, last_at, sample)
ORDER BY tenant, fingerprint
ON CONFLICT (tenant, fingerprint) DO UPDATE
SET message = excluded.message, n = g.n + excluded.n, first_at = least(g.first_at, excluded.first_at),
    last_at = greatest(g.last_at, excluded.last_at), sample = excluded.sample
