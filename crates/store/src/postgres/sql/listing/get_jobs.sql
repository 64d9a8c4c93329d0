-- caller: list_executions, for filters that ask for a job's name or tags
-- guard: the tenant of its executions was compared
-- index: PRIMARY KEY
SELECT id, name, tags FROM jobs WHERE id = ANY($1)
