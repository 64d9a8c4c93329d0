//! When: as sent, as shown, and what can be asked about it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When a job fires, as sent: exactly one of `cron`, `every`, `at`, `after`, or none of them for a job that only runs by
/// hand. A plain string is accepted too: `"30 3 * * *"`, `"@daily"`, `"every 90s"`, `"in 10m"`, an RFC 3339 instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleSpec {
    /// Cron expression of five or six fields, or `@daily` and its like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 3 * * *")]
    pub cron: Option<String>,
    /// IANA zone on whose wall clock `cron` is read; `UTC` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "America/Los_Angeles")]
    pub timezone: Option<String>,
    /// Local times that the clock skips: `NEXT_VALID`, `SHIFT` or `SKIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<String>,
    /// Local times that the clock shows twice: `FIRST`, `SECOND` or `BOTH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<String>,
    /// A fixed period, such as `90s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// Distance of the fires from the grid of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// One instant, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether `at` may lie in the past; the job then fires at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_past: Option<bool>,
    /// A delay from acceptance, such as `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// No fire before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
    /// No fire after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// No more fires than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u32>,
}

/// When a job fires, as shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// `CRON`, `EVERY`, `AT`, `AFTER` or `NONE`.
    #[serde(rename = "type")]
    #[schema(example = "CRON")]
    pub kind: String,
    /// The cron expression, as it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What happens to local times that the clock skips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<String>,
    /// What happens to local times that the clock shows twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<String>,
    /// The period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_ms: Option<u64>,
    /// The instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The delay from acceptance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// No fire before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<String>,
    /// No fire after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// No more fires than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fires: Option<u32>,
}

/// A question about a schedule, with or without a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ScheduleQuestion {
    /// The schedule: a string or an object.
    #[schema(value_type = ScheduleSpec)]
    pub schedule: serde_json::Value,
    /// Its zone, where the schedule is a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// From when; now where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How many fires, 1 to 1000; 10 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The name of the job, which decides what `H` stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One coming fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fire {
    /// The instant.
    #[schema(example = "2027-03-14T07:00:00Z")]
    pub at: String,
    /// The wall clock of the schedule's zone then.
    #[schema(example = "Sun 2027-03-14 03:00:00 EDT")]
    pub local: String,
    /// What a clock change did to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The coming fires of a schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SchedulePreview {
    /// The schedule, as understood.
    pub schedule: Schedule,
    /// From when.
    pub from: String,
    /// The fires, earliest first.
    pub fires: Vec<Fire>,
}

/// What a schedule means.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScheduleExplanation {
    /// The schedule, as understood.
    pub schedule: Schedule,
    /// From when.
    pub from: String,
    /// One sentence.
    #[schema(example = "At 01:30 every day, New York time.")]
    pub words: String,
    /// Its parts.
    pub fields: Vec<ExplainedField>,
    /// How often it fires.
    pub rate: String,
    /// What is easily misread.
    pub notes: Vec<String>,
    /// The next fires.
    pub next_fires: Vec<Fire>,
}

/// One part of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedField {
    /// Its name, such as `minute`.
    pub name: String,
    /// Its value, as written.
    pub value: String,
}
