-- caller: fire, cancel, before they look for keys: two requests under one key follow each other
-- guard: none; in an order that is the same for everybody
-- index: none
SELECT pg_advisory_xact_lock(hashtext(current_schema || ' keys'), h)
FROM (SELECT DISTINCT hashtext(format('%s %L %s', tenant, scope, key)) AS h
      FROM unnest($1::int8[], $2::text[], $3::text[]) AS k (tenant, scope, key)
      ORDER BY h) AS ordered
