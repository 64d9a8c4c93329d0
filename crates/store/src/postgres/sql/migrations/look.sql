-- caller: open, before and between migrations
-- guard: none: reads; what extensions brought along is nobody's
-- index: those of the catalogue
SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1),
       EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace
               WHERE s.nspname = $1
                 AND NOT EXISTS (SELECT 1 FROM pg_depend AS d
                                 WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')),
       (SELECT count(*) = 2 FROM pg_attribute AS a
        WHERE a.attrelid = to_regclass($2) AND a.attname IN ('number', 'applied_at') AND NOT a.attisdropped)
