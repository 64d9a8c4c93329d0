//! A job: as sent ([`JobSpec`]), and as shown ([`Job`]). What is shown can be sent back.

use super::schedule::{Fire, Schedule, ScheduleSpec};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A job, as sent. Names may be camelCase and enums in any case; what is unknown is refused.
///
/// Other spellings that are in use are accepted too: `target` (`pool`, `handler`) for an action of type `WORKER`,
/// `retryPolicy.max_retries` (tries after the first), `timeoutSec`, `type` (`CRON`, `RECURRING`, `ONE_TIME`, `DELAYED`),
/// `schedule` as a string, `run_at` and `delay`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct JobSpec {
    /// Unique among the tenant's jobs: 1 to 200 bytes without `/` and `:`.
    #[schema(example = "daily-invoice-gen")]
    pub name: String,
    /// When. Without it, the job only runs by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// What it is for, in your words; at most 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What is done.
    pub action: Action,
    /// Any JSON, handed to the action; at most 256 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// How it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetrySpec>,
    /// Time limit of one attempt, such as `30s`; at most a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub timeout: Option<String>,
    /// `CRITICAL`, `HIGH`, `NORMAL` or `LOW`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// The capacity that executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// `short`, `long`, or a duration such as `45s` (more than 30 s is long): chooses the pool where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_duration: Option<String>,
    /// What happens to fires that were missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUpSpec>,
    /// What happens to runs that would overlap: `ALLOW`, `SKIP`, `BUFFER_ONE`, `BUFFER_ALL`, `CANCEL_OTHER` or
    /// `TERMINATE_OTHER`; `ALLOW` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// What it is expected to do; who wants to hear when it does not has a webhook endpoint for `late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<ExpectSpec>,
    /// When it does not fire; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
    /// Moves the fires by a fixed distance below this, another one for every job; such as `5m`, at most an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// Labels, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it starts paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What is done when a job fires: its type, and the type's own fields.
///
/// `WEBHOOK`: `url`, `method`, `headers`, `body`. `WORKER`: `handler`. `NOOP`: nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"type": "WEBHOOK", "url": "https://example.com/hook", "method": "POST"}))]
pub struct Action {
    /// `WEBHOOK`, `WORKER` or `NOOP`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields of that type.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub config: BTreeMap<String, serde_json::Value>,
}

/// How an execution is tried again, as sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RetrySpec {
    /// Tries in all, 1 to 1000; `max_retries` counts those after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 3)]
    pub max_attempts: Option<u32>,
    /// `FIXED`, `EXPONENTIAL` or `EXPONENTIAL_WITH_JITTER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// Delay after the first attempt, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<String>,
    /// Longest delay, such as `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<String>,
    /// All attempts and the waits between them together, from the first start, such as `6h`; at most 7 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout: Option<String>,
}

/// What a job is expected to do, as sent. Each is a duration such as `5m`, at most 400 days.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExpectSpec {
    /// From due to the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m")]
    pub start_within: Option<String>,
    /// From due to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_within: Option<String>,
    /// At least one success in every such period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_every: Option<String>,
}

/// A range in which a job does not fire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blackout {
    /// First instant, inclusive.
    #[schema(example = "2026-12-24T00:00:00Z")]
    pub from: String,
    /// Last instant, exclusive.
    #[schema(example = "2026-12-27T00:00:00Z")]
    pub to: String,
}

/// What happens to fires that were missed, as sent. A plain string is accepted too: `"last"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CatchUpSpec {
    /// Which of them run: `NONE`, `LAST`, `ALL`, `LAST_N`, or `COALESCED` (one, which is told since when it stands for the
    /// others).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How many, for `LAST_N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Those older than this do not run, such as `6h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// At least this long between the starts of missed fires, such as `5s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drip: Option<String>,
}

/// How long a job is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseRequest {
    /// An instant (RFC 3339), or a duration from now such as `2h`; until it is resumed where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2h")]
    pub until: Option<String>,
}

/// Which version a job goes back to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevertRequest {
    /// The version whose definition the job gets; it becomes a new version.
    #[schema(example = 3)]
    pub version: u32,
}

/// A job, as shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Identity, for life.
    #[schema(example = "job_01J9ZC0000000000000000TEST")]
    pub id: String,
    /// The same as `id`.
    pub job_id: String,
    /// Its name.
    pub name: String,
    /// What it is for, where somebody said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who owns it.
    pub tenant: String,
    /// `ACTIVE`, `PAUSED` or `DELETED`.
    pub state: String,
    /// The state and the schedule in one word: `SCHEDULED`, `PAUSED`, `COMPLETED` (no fire is left), `MANUAL` (there
    /// never was one), `CANCELLED` (deleted), or `SUPERSEDED` (an earlier version).
    pub status: String,
    /// When.
    pub schedule: Schedule,
    /// The next fire, where there is one.
    pub next_fire_at: Option<String>,
    /// The same as `next_fire_at`.
    pub next_run_at: Option<String>,
    /// Fires left under `max_fires`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fires_left: Option<u32>,
    /// What is done.
    #[schema(value_type = Action)]
    pub action: Box<RawValue>,
    /// Whom it is done to: a worker's handler, or the origin of a URL. Not taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://example.com")]
    pub target: Option<String>,
    /// What is handed to the action.
    #[schema(value_type = serde_json::Value)]
    pub payload: Box<RawValue>,
    /// How it is tried again.
    pub retry_policy: RetryPolicy,
    /// Time limit of one attempt.
    pub timeout_ms: u64,
    /// Who goes first.
    pub priority: String,
    /// Which capacity executes it.
    pub pool: String,
    /// What happens to fires that were missed.
    pub catch_up: CatchUp,
    /// What happens to runs that would overlap.
    #[serde(default)]
    #[schema(example = "ALLOW")]
    pub overlap: String,
    /// What it is expected to do, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// When it does not fire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
    /// When its pause ends by itself, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// Width within which the fires are moved.
    pub spread_ms: u64,
    /// Labels.
    pub tags: Vec<String>,
    /// Grows by one with every change; what the ETag shows.
    pub version: u32,
    /// When it was accepted.
    pub created_at: String,
    /// Since when this version counts: it governs the instants after this. The store's clock, when the change was written.
    #[serde(default)]
    pub effective_at: String,
    /// The same as `effective_at`.
    pub updated_at: String,
    /// The last instant that this version governs, where another one has followed it; only in lists of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The next five fires; only on a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_fires: Option<Vec<Fire>>,
    /// Whether this is only what would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// How an execution is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryPolicy {
    /// Tries in all.
    pub max_attempts: u32,
    /// How the delay grows.
    pub backoff: String,
    /// Delay after the first attempt.
    pub initial_delay_ms: u64,
    /// Longest delay.
    pub max_delay_ms: u64,
    /// All attempts and the waits between them together, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<u64>,
}

/// What a job is expected to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Expect {
    /// From due to the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<u64>,
    /// From due to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_within_ms: Option<u64>,
    /// At least one success in every such period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_every_ms: Option<u64>,
}

/// What happens to fires that were missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatchUp {
    /// Which of them run.
    pub mode: String,
    /// How many, for `LAST_N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Those older than this do not.
    pub max_age_ms: u64,
    /// At least this long between their starts; 0 for all at once.
    #[serde(default)]
    pub drip_ms: u64,
}

impl Job {
    /// The action, read.
    pub fn action(&self) -> Action {
        serde_json::from_str(self.action.get()).unwrap_or_default()
    }

    /// The payload, read. Numbers beyond 64 bits lose digits here; [`Job::payload`] itself has them all.
    pub fn payload(&self) -> serde_json::Value {
        serde_json::from_str(self.payload.get()).unwrap_or_default()
    }
}
