-- caller: fire
-- guard: the shard's epoch was checked before; a refire needs states ?12 and a newer version
-- index: PRIMARY KEY
INSERT INTO executions (id, tenant, job_id, job_version, fire_at, kind, state, attempt, fence, priority, pool, action,
                        wake_at, fired_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?9, ?10, ?5, ?11)
ON CONFLICT (id) DO UPDATE
SET job_version = excluded.job_version, state = excluded.state, reason = NULL, priority = excluded.priority,
    pool = excluded.pool, action = excluded.action, wake_at = excluded.wake_at, fired_at = excluded.fired_at,
    finished_at = NULL
WHERE job_version < excluded.job_version AND attempt = 0 AND (1 << state) & ?12 <> 0 AND (reason IS NULL OR reason = ?13)
