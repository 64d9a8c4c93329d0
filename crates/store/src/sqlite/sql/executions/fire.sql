-- caller: fire; cancel, of fires that have not come, which are over already (?17 to ?19)
-- guard: the shard's epoch was checked before; what is there stays
-- index: PRIMARY KEY
INSERT INTO executions (id, tenant, job_id, job_version, fire_at, kind, state, attempt, fence, priority, pool, action,
                        wake_at, fired_at, target, overlap, covers_from, watched, reason, finished_at, note)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT (id) DO NOTHING
