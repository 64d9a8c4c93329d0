//! Executions, their attempts, and fires that became none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One fire of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Execution {
    /// Identity, derived from the job and the instant.
    #[schema(example = "exe_01J9ZC0000000000000000TEST")]
    pub id: String,
    /// The same as `id`.
    pub execution_id: String,
    /// Of which job.
    pub job_id: String,
    /// Its name.
    pub job_name: String,
    /// The version that it was fired under.
    pub job_version: u32,
    /// The instant it was due.
    pub fire_at: String,
    /// The same as `fire_at`.
    pub scheduled_at: String,
    /// Why it exists: `SCHEDULE` or `MANUAL`.
    pub kind: String,
    /// `BLOCKED`, `PENDING`, `RUNNING`, `RETRYING`, `SUCCEEDED`, `DEAD`, `CANCELLED` or `SKIPPED`.
    pub state: String,
    /// The same as `state`.
    pub status: String,
    /// Whether it is over.
    pub is_final: bool,
    /// Why it is in that state, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Tries so far, the running one included.
    pub attempt: u32,
    /// The fence of the newest attempt.
    pub fence_token: u64,
    /// Who goes first.
    pub priority: String,
    /// The capacity it needs.
    pub pool: String,
    /// What is done: `WEBHOOK`, `WORKER` or `NOOP`.
    pub action: String,
    /// When it became durable.
    pub fired_at: String,
    /// When the newest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, or the newest attempt did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How much after `fire_at` the first attempt started, as long as it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<u64>,
    /// How long the newest attempt took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// When the next attempt may start, while it is `RETRYING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// Who runs or ran the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How the newest attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What went wrong in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AttemptError>,
}

/// One try of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// From 1.
    pub attempt: u32,
    /// Its fence.
    pub fence_token: u64,
    /// Who ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When it started.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// `SUCCEEDED`, `FAILED`, `TIMED_OUT`, `WORKER_LOST`, `CANCELLED` or `SNOOZED`; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<AttemptError>,
    /// What the target answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptError {
    /// Short and stable.
    #[schema(example = "http_503")]
    pub kind: String,
    /// For people.
    pub message: String,
}

/// What a target answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The body: text, or base64 where it is not UTF-8.
    pub body: String,
    /// `TEXT` or `BASE64`.
    pub body_encoding: String,
    /// Whether it was cut at 64 KiB.
    pub truncated: bool,
}

/// Fires that did not become executions: all those in the range that have no execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Skip {
    /// Of which job.
    pub job_id: String,
    /// First instant, inclusive.
    pub from: String,
    /// Last instant, inclusive.
    pub to: String,
    /// Why.
    #[schema(example = "MISFIRE_COALESCED")]
    pub reason: String,
    /// When it was recorded.
    pub recorded_at: String,
}
