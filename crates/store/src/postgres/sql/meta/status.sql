-- caller: status
-- guard: none: reads
-- index: schema_migrations_pkey, counters_pkey; the sizes are those of all our tables
SELECT (SELECT coalesce(max(number), 0) FROM schema_migrations),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
        FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace
        WHERE s.nspname = $1 AND c.relkind = 'r'),
       (SELECT coalesce(sum(value), 0)::int8 FROM counters WHERE name = 'live_jobs')
