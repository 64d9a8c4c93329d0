-- caller: break_watches; those that somebody else is at work on are left to them
-- guard: none
-- index: watches_due
SELECT execution_id, kind, job_id, tenant, due_at
FROM watches
WHERE due_at <= $1
ORDER BY due_at
LIMIT $2
FOR UPDATE SKIP LOCKED
