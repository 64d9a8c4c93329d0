-- caller: complete, of successes: only forward; break_watches: to the end of the period that runs
-- guard: the rows are locked
-- index: PRIMARY KEY
UPDATE success_watches AS w
SET due_at = u.due_at
FROM unnest($1::uuid[], $2::int8[]) AS u (job_id, due_at)
WHERE w.job_id = u.job_id
