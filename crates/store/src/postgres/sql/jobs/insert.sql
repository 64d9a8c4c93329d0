-- caller: put_jobs, for jobs that must be absent
-- guard: no row of this id, no live job of this name: judged before, and nobody else writes jobs meanwhile
-- index: jobs_pkey and jobs_name would find a conflict
INSERT INTO jobs (id, shard, tenant, version, state, updated_at, plan, next_fire_at, fires_left, ends_at, spread_ms,
                  priority, pool, action_kind, target, catch_up_mode, catch_up_n, catch_up_age_ms,
                  catch_up_drip_ms, overlap, start_within_ms, finish_within_ms, success_every_ms,
                  blackouts, change_seq, name, schedule, starts_at, max_fires, max_attempts,
                  backoff, initial_delay_ms, max_delay_ms, total_timeout_ms, timeout_ms, tags,
                  created_at, paused_until, action_config, payload)
SELECT *
FROM unnest($1::uuid[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::text[], $8::int8[],
            $9::int8[], $10::int8[], $11::int8[], $12::int2[], $13::text[], $14::int2[], $15::text[],
            $16::int2[], $17::int8[], $18::int8[], $19::int8[], $20::int2[], $21::int8[], $22::int8[],
            $23::int8[], $24::text[], $25::int8[], $26::text[], $27::text[], $28::int8[], $29::int8[],
            $30::int8[], $31::int2[], $32::int8[], $33::int8[], $34::int8[], $35::int8[], $36::text[],
            $37::int8[], $38::int8[], $39::text[], $40::text[])
