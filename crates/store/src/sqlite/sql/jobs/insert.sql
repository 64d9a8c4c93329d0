-- caller: put_jobs, for jobs that must be absent
-- guard: no row of this id, no live job of this name
-- index: the primary key and jobs_name find the conflict
INSERT INTO jobs (id, tenant, version, state, updated_at, plan, next_fire_at, fires_left, ends_at, spread_ms, priority,
                  pool, action_kind, catch_up_mode, catch_up_n, catch_up_age_ms, change_seq, name, schedule, starts_at,
                  max_fires, max_attempts, backoff, initial_delay_ms, max_delay_ms, timeout_ms, tags, created_at,
                  action_config, payload, target, catch_up_drip_ms, overlap, start_within_ms, finish_within_ms,
                  success_every_ms, blackouts, total_timeout_ms, paused_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39)
ON CONFLICT DO NOTHING
