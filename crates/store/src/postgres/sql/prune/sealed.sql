-- caller: prune: the partitions of executions that are about to be dropped, with what tells one sealing from another
-- guard: none: reads; only in our schema
-- index: those of the catalogue
SELECT t.relname::text, c.oid::int8
FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid JOIN pg_namespace AS s ON s.oid = t.relnamespace
WHERE c.conname = 'sealed' AND s.nspname = current_schema
