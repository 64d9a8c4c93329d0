-- caller: put_jobs, for jobs that must be in a version
-- guard: the version that the writer saw; the rows are locked
-- index: jobs_pkey
UPDATE jobs AS j
SET version = w.version, state = w.state, updated_at = w.updated_at, plan = w.plan, next_fire_at = w.next_fire_at,
    fires_left = w.fires_left, ends_at = w.ends_at, spread_ms = w.spread_ms, priority = w.priority, pool = w.pool,
    action_kind = w.action_kind, target = w.target, catch_up_mode = w.catch_up_mode, catch_up_n = w.catch_up_n,
    catch_up_age_ms = w.catch_up_age_ms, catch_up_drip_ms = w.catch_up_drip_ms, overlap = w.overlap,
    start_within_ms = w.start_within_ms, finish_within_ms = w.finish_within_ms, success_every_ms =
    w.success_every_ms, blackouts = w.blackouts, change_seq = w.change_seq, name = w.name, schedule = w.schedule,
    starts_at = w.starts_at, max_fires = w.max_fires, max_attempts = w.max_attempts, backoff = w.backoff,
    initial_delay_ms = w.initial_delay_ms, max_delay_ms = w.max_delay_ms, total_timeout_ms = w.total_timeout_ms,
    timeout_ms = w.timeout_ms, tags = w.tags, created_at = w.created_at, paused_until = w.paused_until,
    action_config = w.action_config, payload = w.payload
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::text[], $8::int8[],
            $9::int8[], $10::int8[], $11::int8[], $12::int2[], $13::text[], $14::int2[], $15::text[],
            $16::int2[], $17::int8[], $18::int8[], $19::int8[], $20::int2[], $21::int8[], $22::int8[],
            $23::int8[], $24::text[], $25::int8[], $26::text[], $27::text[], $28::int8[], $29::int8[],
            $30::int8[], $31::int2[], $32::int8[], $33::int8[], $34::int8[], $35::int8[], $36::text[],
            $37::int8[], $38::int8[], $39::text[], $40::text[], $41::int8[])
     AS w (id, shard, tenant, version, state, updated_at, plan, next_fire_at, fires_left, ends_at, spread_ms,
           priority, pool, action_kind, target, catch_up_mode, catch_up_n, catch_up_age_ms,
           catch_up_drip_ms, overlap, start_within_ms, finish_within_ms, success_every_ms, blackouts,
           change_seq, name, schedule, starts_at, max_fires, max_attempts, backoff, initial_delay_ms,
           max_delay_ms, total_timeout_ms, timeout_ms, tags, created_at, paused_until, action_config,
           payload, expected)
WHERE j.id = w.id AND j.tenant = w.tenant AND j.version = w.expected
