-- caller: missing
-- guard: none; what is received just now is missing too, and its second claim loses
-- index: none: all of the table is read once, which costs less than an index that every message would have to write
SELECT wanted.id
FROM unnest($1::uuid[]) AS wanted (id)
WHERE NOT EXISTS (SELECT 1 FROM ready WHERE ready.execution_id = wanted.id)
