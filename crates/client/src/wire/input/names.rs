//! Every spelling that is in use, and the one field that it stands for.

/// What a spelling stands for.
#[derive(Copy, Clone, Debug)]
pub(super) enum Form {
    /// The value itself.
    Plain,
    /// A duration: a text, or a number in this many milliseconds.
    Span(u64),
    /// A duration that must be a text, since a number would have no unit.
    SpanText,
    /// Tries after the first.
    Retries,
    /// An object of further fields.
    Group(&'static [Name]),
    /// An action object.
    Action,
    /// A target object: an action for a worker.
    Target,
    /// Shown, but not taken: the server's own.
    Ignored,
}

/// One spelling.
pub(super) type Name = (&'static str, &'static str, Form);

use Form::{Action, Group, Ignored, Plain, Retries, Span as Ms, SpanText, Target};

pub(super) const JOB: &[Name] = &[
    ("name", "/name", Plain),
    ("type", "/schedule/type", Plain),
    ("schedule", "/schedule", Group(SCHEDULE)),
    ("cron", "/schedule/cron", Plain),
    ("cron_expression", "/schedule/cron", Plain),
    ("timezone", "/schedule/timezone", Plain),
    ("time_zone", "/schedule/timezone", Plain),
    ("tz", "/schedule/timezone", Plain),
    ("dst_gap", "/schedule/dst_gap", Plain),
    ("dst_fold", "/schedule/dst_fold", Plain),
    ("every", "/schedule/every", SpanText),
    ("every_ms", "/schedule/every", Ms(1)),
    ("interval", "/schedule/every", SpanText),
    ("interval_ms", "/schedule/every", Ms(1)),
    ("interval_seconds", "/schedule/every", Ms(1000)),
    ("at", "/schedule/at", Plain),
    ("run_at", "/schedule/at", Plain),
    ("scheduled_at", "/schedule/at", Plain),
    ("scheduled_time", "/schedule/at", Plain),
    ("execute_at", "/schedule/at", Plain),
    ("allow_past", "/schedule/allow_past", Plain),
    ("after", "/schedule/after", SpanText),
    ("delay", "/schedule/after", SpanText),
    ("delay_ms", "/schedule/after", Ms(1)),
    ("delay_sec", "/schedule/after", Ms(1000)),
    ("delay_seconds", "/schedule/after", Ms(1000)),
    ("starts_at", "/starts_at", Plain),
    ("ends_at", "/ends_at", Plain),
    ("max_fires", "/max_fires", Plain),
    ("action", "/action", Action),
    ("target", "/action", Target),
    ("description", "/description", Plain),
    ("payload", "/payload", Plain),
    ("retry_policy", "/retry_policy", Group(RETRY)),
    ("retry", "/retry_policy", Group(RETRY)),
    ("max_attempts", "/retry_policy/max_attempts", Plain),
    ("max_retries", "/retry_policy/max_attempts", Retries),
    ("timeout", "/timeout_ms", SpanText),
    ("timeout_ms", "/timeout_ms", Ms(1)),
    ("timeout_sec", "/timeout_ms", Ms(1000)),
    ("timeout_secs", "/timeout_ms", Ms(1000)),
    ("timeout_seconds", "/timeout_ms", Ms(1000)),
    ("priority", "/priority", Plain),
    ("pool", "/pool", Plain),
    ("estimated_duration", "/estimated_duration", SpanText),
    ("estimated_duration_ms", "/estimated_duration", Ms(1)),
    ("estimated_duration_sec", "/estimated_duration", Ms(1000)),
    ("estimated_duration_seconds", "/estimated_duration", Ms(1000)),
    ("catch_up", "/catch_up", Group(CATCH_UP)),
    ("catchup", "/catch_up", Group(CATCH_UP)),
    ("overlap", "/overlap", Plain),
    ("overlap_policy", "/overlap", Plain),
    ("expect", "/expect", Group(EXPECT)),
    ("blackouts", "/blackouts", Plain),
    ("spread", "/spread_ms", SpanText),
    ("spread_ms", "/spread_ms", Ms(1)),
    ("tags", "/tags", Plain),
    ("paused", "/paused", Plain),
    ("state", "/state", Plain),
    ("idempotency_key", "/idempotency_key", Plain),
    ("id", "", Ignored),
    ("job_id", "", Ignored),
    ("tenant", "", Ignored),
    ("tenant_id", "", Ignored),
    ("status", "", Ignored),
    ("version", "", Ignored),
    ("next_fire_at", "", Ignored),
    ("next_run_at", "", Ignored),
    ("next_fires", "", Ignored),
    ("fires_left", "", Ignored),
    ("paused_until", "", Ignored),
    ("created_at", "", Ignored),
    ("updated_at", "", Ignored),
    ("effective_at", "", Ignored),
    ("ended_at", "", Ignored),
    ("dry_run", "", Ignored),
];

pub(super) const SCHEDULE: &[Name] = &[
    ("type", "/schedule/type", Plain),
    ("kind", "/schedule/type", Plain),
    ("cron", "/schedule/cron", Plain),
    ("expression", "/schedule/cron", Plain),
    ("cron_expression", "/schedule/cron", Plain),
    ("timezone", "/schedule/timezone", Plain),
    ("time_zone", "/schedule/timezone", Plain),
    ("tz", "/schedule/timezone", Plain),
    ("dst_gap", "/schedule/dst_gap", Plain),
    ("dst_fold", "/schedule/dst_fold", Plain),
    ("every", "/schedule/every", SpanText),
    ("every_ms", "/schedule/every", Ms(1)),
    ("every_seconds", "/schedule/every", Ms(1000)),
    ("interval", "/schedule/every", SpanText),
    ("interval_ms", "/schedule/every", Ms(1)),
    ("interval_seconds", "/schedule/every", Ms(1000)),
    ("phase", "/schedule/phase", SpanText),
    ("phase_ms", "/schedule/phase", Ms(1)),
    ("at", "/schedule/at", Plain),
    ("run_at", "/schedule/at", Plain),
    ("scheduled_at", "/schedule/at", Plain),
    ("allow_past", "/schedule/allow_past", Plain),
    ("after", "/schedule/after", SpanText),
    ("after_ms", "/schedule/after", Ms(1)),
    ("delay", "/schedule/after", SpanText),
    ("delay_ms", "/schedule/after", Ms(1)),
    ("delay_seconds", "/schedule/after", Ms(1000)),
    ("starts_at", "/starts_at", Plain),
    ("ends_at", "/ends_at", Plain),
    ("max_fires", "/max_fires", Plain),
];

pub(super) const RETRY: &[Name] = &[
    ("max_attempts", "/retry_policy/max_attempts", Plain),
    ("max_retries", "/retry_policy/max_attempts", Retries),
    ("backoff", "/retry_policy/backoff", Plain),
    ("initial_delay", "/retry_policy/initial_delay_ms", SpanText),
    ("initial_delay_ms", "/retry_policy/initial_delay_ms", Ms(1)),
    ("initial_delay_sec", "/retry_policy/initial_delay_ms", Ms(1000)),
    ("initial_delay_seconds", "/retry_policy/initial_delay_ms", Ms(1000)),
    ("max_delay", "/retry_policy/max_delay_ms", SpanText),
    ("max_delay_ms", "/retry_policy/max_delay_ms", Ms(1)),
    ("max_delay_sec", "/retry_policy/max_delay_ms", Ms(1000)),
    ("max_delay_seconds", "/retry_policy/max_delay_ms", Ms(1000)),
    ("total_timeout", "/retry_policy/total_timeout_ms", SpanText),
    ("total_timeout_ms", "/retry_policy/total_timeout_ms", Ms(1)),
    ("total_timeout_sec", "/retry_policy/total_timeout_ms", Ms(1000)),
    ("total_timeout_seconds", "/retry_policy/total_timeout_ms", Ms(1000)),
];

pub(super) const CATCH_UP: &[Name] = &[
    ("mode", "/catch_up/mode", Plain),
    ("n", "/catch_up/n", Plain),
    ("count", "/catch_up/n", Plain),
    ("max_age", "/catch_up/max_age_ms", SpanText),
    ("max_age_ms", "/catch_up/max_age_ms", Ms(1)),
    ("max_age_seconds", "/catch_up/max_age_ms", Ms(1000)),
    ("drip", "/catch_up/drip_ms", SpanText),
    ("drip_ms", "/catch_up/drip_ms", Ms(1)),
    ("drip_seconds", "/catch_up/drip_ms", Ms(1000)),
];

pub(super) const EXPECT: &[Name] = &[
    ("start_within", "/expect/start_within_ms", SpanText),
    ("start_within_ms", "/expect/start_within_ms", Ms(1)),
    ("start_within_seconds", "/expect/start_within_ms", Ms(1000)),
    ("finish_within", "/expect/finish_within_ms", SpanText),
    ("finish_within_ms", "/expect/finish_within_ms", Ms(1)),
    ("finish_within_seconds", "/expect/finish_within_ms", Ms(1000)),
    ("success_every", "/expect/success_every_ms", SpanText),
    ("success_every_ms", "/expect/success_every_ms", Ms(1)),
    ("success_every_seconds", "/expect/success_every_ms", Ms(1000)),
];

/// A question about a schedule has its fields too.
pub(super) const QUESTION: &[Name] = &[
    ("schedule", "/schedule", Group(SCHEDULE)),
    ("cron", "/schedule/cron", Plain),
    ("timezone", "/schedule/timezone", Plain),
    ("tz", "/schedule/timezone", Plain),
    ("dst_gap", "/schedule/dst_gap", Plain),
    ("dst_fold", "/schedule/dst_fold", Plain),
    ("from", "/from", Plain),
    ("count", "/count", Plain),
    ("n", "/count", Plain),
    ("name", "/name", Plain),
];

pub(super) const REVERT: &[Name] = &[("version", "/version", Plain), ("to", "/version", Plain)];

pub(super) const PAUSE: &[Name] = &[("until", "/until", Plain)];

pub(super) const CANCEL: &[Name] = &[
    ("at", "/at", Plain),
    ("grace", "/grace_ms", SpanText),
    ("grace_ms", "/grace_ms", Ms(1)),
    ("grace_seconds", "/grace_ms", Ms(1000)),
    ("note", "/note", Plain),
    ("reason", "/note", Plain),
];

/// The limits of a pool. What is shown of one can be sent back.
pub(super) const POOL: &[Name] = &[
    ("slots", "/slots", Plain),
    ("paused", "/paused", Plain),
    ("name", "", Ignored),
    ("waiting", "", Ignored),
    ("running", "", Ignored),
    ("retrying", "", Ignored),
    ("held", "", Ignored),
    ("blocked", "", Ignored),
    ("queued", "", Ignored),
    ("oldest_waiting_at", "", Ignored),
    ("oldest_waiting_ms", "", Ignored),
    ("workers", "", Ignored),
    ("updated_at", "", Ignored),
];

/// The limits of a target. What is shown of one can be sent back.
pub(super) const TARGET_LIMITS: &[Name] = &[
    ("slots", "/slots", Plain),
    ("per_second", "/per_second", Plain),
    ("rate", "/rate", Plain),
    ("name", "", Ignored),
    ("running", "", Ignored),
    ("waiting", "", Ignored),
    ("circuit_open", "", Ignored),
    ("updated_at", "", Ignored),
];

pub(super) const REPLAY: &[Name] = &[
    ("executions", "/executions", Plain),
    ("execution_ids", "/executions", Plain),
    ("filter", "/filter", Plain),
    ("fingerprint", "/fingerprint", Plain),
    ("fp", "/fingerprint", Plain),
    ("all", "/all", Plain),
    ("per_second", "/per_second", Plain),
    ("rate", "/rate", Plain),
    ("max_parallel", "/max_parallel", Plain),
    ("canary", "/canary", Plain),
    ("stop_if_failing_percent", "/stop_if_failing_percent", Plain),
    ("stop_if_failing", "/stop_if_failing_percent", Plain),
];

pub(super) const DISCARD: &[Name] = &[
    ("executions", "/executions", Plain),
    ("execution_ids", "/executions", Plain),
    ("filter", "/filter", Plain),
    ("fingerprint", "/fingerprint", Plain),
    ("fp", "/fingerprint", Plain),
    ("all", "/all", Plain),
    ("reason", "/reason", Plain),
    ("note", "/reason", Plain),
];

pub(super) const BACKFILL: &[Name] = &[
    ("from", "/from", Plain),
    ("to", "/to", Plain),
    ("max_parallel", "/max_parallel", Plain),
    ("reprocess", "/reprocess", Plain),
    ("per_second", "/per_second", Plain),
    ("rate", "/rate", Plain),
];

/// An endpoint. What is shown of one can be sent back.
pub(super) const ENDPOINT: &[Name] = &[
    ("url", "/url", Plain),
    ("events", "/events", Plain),
    ("job", "/job", Plain),
    ("job_id", "/job", Plain),
    ("tag", "/tag", Plain),
    ("paused", "/paused", Plain),
    ("id", "", Ignored),
    ("created_at", "", Ignored),
];

pub(super) const TARGET: &[&str] = &["pool", "handler"];

/// What may follow what in a schedule: setting one of these ends the others.
pub(super) const SCHEDULE_KINDS: [&str; 4] = ["/schedule/cron", "/schedule/every", "/schedule/at", "/schedule/after"];
