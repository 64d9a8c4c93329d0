-- caller: open, with the migration itself
-- guard: the key: none is applied twice
-- index: schema_migrations_pkey
INSERT INTO schema_migrations (number) VALUES ($1)
