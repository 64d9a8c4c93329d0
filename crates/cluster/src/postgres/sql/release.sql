-- caller: an owner, for shards that its engine has given up
-- guard: only what this session holds
-- index: none
SELECT count(*) FILTER (WHERE NOT pg_advisory_unlock($1, shard)) AS unheld FROM unnest($2::int4[]) AS shard
