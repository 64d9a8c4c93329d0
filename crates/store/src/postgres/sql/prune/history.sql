-- caller: prune
-- guard: the executions were deleted before
-- index: PRIMARY KEY
DELETE FROM history AS h USING unnest($1::uuid[], $2::uuid[]) AS u (job_id, execution_id)
WHERE h.job_id = u.job_id AND h.execution_id = u.execution_id AND h.execution_id >= $3 AND h.execution_id <= $4
