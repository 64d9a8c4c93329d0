-- caller: load_due, of all shards
-- guard: state $4
-- index: jobs_due
SELECT j.id, j.tenant, j.version, j.state, j.updated_at, j.plan, j.next_fire_at, j.fires_left, j.ends_at, j.spread_ms,
       j.priority, j.pool, j.action_kind, j.target, j.catch_up_mode, j.catch_up_n, j.catch_up_age_ms, j.catch_up_drip_ms,
       j.overlap, j.start_within_ms, j.finish_within_ms, j.success_every_ms, j.blackouts
FROM jobs AS j
WHERE (j.next_fire_at, j.id) > ($1, $2) AND j.next_fire_at < $3 AND j.state = $4
ORDER BY j.next_fire_at, j.id
LIMIT $5
