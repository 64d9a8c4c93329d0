-- caller: fire, in bulk
-- guard: the shard's epoch was checked before; what is there is told by the unique index
-- index: PRIMARY KEY finds a conflict
COPY executions (id, job_id, tenant, job_version, fire_at, fired_at, kind, priority, action, overlap, watched, covers_from, pool,
                 target, state, wake_at, attempts_from, losses, attempt, fence, deliveries) FROM STDIN BINARY
