-- caller: an owner, for shards that it should own, never for one that it holds: session locks are re-entrant
-- guard: the lock of a shard has one holder at a time
-- index: none
SELECT shard FROM unnest($2::int4[]) AS shard WHERE pg_try_advisory_lock($1, shard)
