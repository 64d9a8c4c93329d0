-- caller: break_watches; the last column says whether the job may still fire: $3 is the plan of those that people fire
-- guard: none; those that somebody else is at work on are left to them
-- index: success_watches_due
SELECT w.job_id, w.tenant, w.every_ms, w.due_at, coalesce(c.next_fire_at IS NOT NULL OR j.plan = $3, false)
FROM success_watches AS w LEFT JOIN jobs AS j ON j.id = w.job_id LEFT JOIN cursors AS c ON c.job_id = w.job_id
WHERE w.due_at <= $1
ORDER BY w.due_at
LIMIT $2
FOR UPDATE OF w SKIP LOCKED
