-- caller: open; every migration, under its lock
-- guard: none: reads
-- index: schema_migrations_pkey
SELECT coalesce(max(number), 0) FROM schema_migrations
