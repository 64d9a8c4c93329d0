-- caller: load_resumable
-- guard: only in state $2
-- index: jobs_resumable
SELECT j.id, j.tenant, j.version, j.state, j.next_fire_at, j.fires_left, j.plan, j.firing,
       j.created_at, j.effective_at, j.paused_until, j.definition
FROM jobs AS j
WHERE j.paused_until IS NOT NULL AND j.paused_until <= $1 AND j.state = $2
ORDER BY j.paused_until
LIMIT $3
