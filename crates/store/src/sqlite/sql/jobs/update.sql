-- caller: put_jobs, for jobs that must be in a version
-- guard: the version ?40 that the writer saw
-- index: sqlite_autoindex_jobs_1 (id)
UPDATE jobs
SET version = ?3, state = ?4, updated_at = ?5, plan = ?6, next_fire_at = ?7, fires_left = ?8, ends_at = ?9,
    spread_ms = ?10, priority = ?11, pool = ?12, action_kind = ?13, catch_up_mode = ?14, catch_up_n = ?15,
    catch_up_age_ms = ?16, change_seq = ?17, name = ?18, schedule = ?19, starts_at = ?20, max_fires = ?21,
    max_attempts = ?22, backoff = ?23, initial_delay_ms = ?24, max_delay_ms = ?25, timeout_ms = ?26, tags = ?27,
    created_at = ?28, action_config = ?29, payload = ?30, target = ?31, catch_up_drip_ms = ?32, overlap = ?33,
    start_within_ms = ?34, finish_within_ms = ?35, success_every_ms = ?36, blackouts = ?37, total_timeout_ms = ?38,
    paused_until = ?39
WHERE id = ?1 AND tenant = ?2 AND version = ?40
