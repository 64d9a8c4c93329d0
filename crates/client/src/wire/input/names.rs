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
    ("estimated_duration", "/estimated_duration", Plain),
    ("catch_up", "/catch_up", Group(CATCH_UP)),
    ("catchup", "/catch_up", Group(CATCH_UP)),
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
    ("created_at", "", Ignored),
    ("updated_at", "", Ignored),
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
];

pub(super) const CATCH_UP: &[Name] = &[
    ("mode", "/catch_up/mode", Plain),
    ("n", "/catch_up/n", Plain),
    ("count", "/catch_up/n", Plain),
    ("max_age", "/catch_up/max_age_ms", SpanText),
    ("max_age_ms", "/catch_up/max_age_ms", Ms(1)),
    ("max_age_seconds", "/catch_up/max_age_ms", Ms(1000)),
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

pub(super) const TARGET: &[&str] = &["pool", "handler"];

/// What may follow what in a schedule: setting one of these ends the others.
pub(super) const SCHEDULE_KINDS: [&str; 4] = ["/schedule/cron", "/schedule/every", "/schedule/at", "/schedule/after"];
