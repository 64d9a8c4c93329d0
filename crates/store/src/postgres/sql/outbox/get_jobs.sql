-- caller: emit: what events say of their jobs, and whether their tags are wanted
-- guard: none: reads
-- index: PRIMARY KEY
SELECT id, name, tags FROM jobs WHERE id = ANY($1)
