-- caller: load_changed
-- guard: none: reads; numbers are in the order of commits, so that none comes later
-- index: jobs_changed
SELECT j.id, j.tenant, j.version, j.state, j.updated_at, j.plan, j.next_fire_at, j.fires_left, j.ends_at, j.spread_ms,
       j.priority, j.pool, j.action_kind, j.target, j.catch_up_mode, j.catch_up_n, j.catch_up_age_ms, j.catch_up_drip_ms,
       j.overlap, j.start_within_ms, j.finish_within_ms, j.success_every_ms, j.blackouts,
       j.change_seq
FROM jobs AS j
WHERE j.change_seq > $1
ORDER BY j.change_seq
LIMIT $2
