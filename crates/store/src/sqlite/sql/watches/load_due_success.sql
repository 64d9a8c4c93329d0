-- caller: break_watches; the last column says whether the job may still fire: ?3 is the plan of those that people fire
-- guard: none: reads
-- index: success_watches_due
SELECT w.job_id, w.tenant, w.every_ms, w.due_at, coalesce(j.next_fire_at IS NOT NULL OR j.plan = ?3, 0)
FROM success_watches AS w LEFT JOIN jobs AS j ON j.id = w.job_id
WHERE w.due_at <= ?1
ORDER BY w.due_at
LIMIT ?2
