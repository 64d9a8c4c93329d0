-- caller: every verb that ends executions
-- guard: their jobs are locked
-- index: PRIMARY KEY
DELETE FROM "overlaps" AS o
USING unnest($1::uuid[], $2::uuid[]) AS u (job_id, execution_id)
WHERE o.job_id = u.job_id AND o.execution_id = u.execution_id
