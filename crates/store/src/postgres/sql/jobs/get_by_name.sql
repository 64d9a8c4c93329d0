-- caller: get_jobs
-- guard: the tenant; only live jobs
-- index: jobs_name
SELECT j.id, j.tenant, j.version, j.state, j.updated_at, j.plan, j.next_fire_at, j.fires_left, j.ends_at, j.spread_ms,
       j.priority, j.pool, j.action_kind, j.target, j.catch_up_mode, j.catch_up_n, j.catch_up_age_ms, j.catch_up_drip_ms,
       j.overlap, j.start_within_ms, j.finish_within_ms, j.success_every_ms, j.blackouts,
       j.name, j.schedule, j.starts_at, j.max_fires, j.max_attempts, j.backoff, j.initial_delay_ms, j.max_delay_ms,
       j.total_timeout_ms, j.timeout_ms, j.tags, j.created_at, j.paused_until, j.action_config, j.payload
FROM live_jobs AS j
WHERE j.tenant = $1 AND j.name = ANY($2)
