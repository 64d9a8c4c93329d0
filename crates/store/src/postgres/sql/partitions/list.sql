-- caller: ensure and prune: the partitions of the tables $1, and the day it is by the server's clock
-- guard: none: reads; only in our schema
-- index: those of the catalogue
SELECT p.relname::text, c.relname::text, floor(extract(epoch FROM now()) / 86400)::int8
FROM pg_inherits AS i
     JOIN pg_class AS p ON p.oid = i.inhparent
     JOIN pg_class AS c ON c.oid = i.inhrelid
     JOIN pg_namespace AS s ON s.oid = p.relnamespace
WHERE s.nspname = current_schema AND p.relname = ANY($1) AND p.relkind = 'p'
