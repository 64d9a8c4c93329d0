-- caller: load_waiting
-- guard: none: reads; only states ?4
-- index: executions_waiting
SELECT id, job_id, fire_at, pool, tenant, job_version, attempt, priority, action, target, wake_at
FROM waiting_executions
WHERE wake_at < ?1 AND (wake_at, id) > (?2, ?3) AND (1 << state) & ?4 <> 0
  AND fired_at <= ?5
ORDER BY wake_at, id
