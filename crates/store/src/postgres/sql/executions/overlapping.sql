-- caller: every write of executions that locks them first: whose runs may not overlap, and so must be locked before their rows
-- guard: none: reads; looked at again once the rows are locked; $4 is the code of those that may
-- index: PRIMARY KEY
SELECT DISTINCT job_id FROM executions WHERE id = ANY($1) AND id >= $2 AND id <= $3 AND overlap <> $4
