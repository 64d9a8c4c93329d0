//! Executions, their attempts, and fires that became none.

use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    /// Why it exists: `SCHEDULE`, `MANUAL` or `BACKFILL`.
    pub kind: String,
    /// `HELD`, `WAITING`, `BLOCKED`, `PENDING`, `RUNNING`, `RETRYING`, `SUCCEEDED`, `DEAD`, `CANCELLED` or `SKIPPED`.
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
    /// Whom it is done to: a worker's handler, or the origin of a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The handler of the worker that runs it, where it waits for a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// What it does about another run of its job.
    #[serde(default)]
    pub overlap: String,
    /// The first of the missed fires that this run stands for, itself excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers_from: Option<String>,
    /// When it became durable.
    pub fired_at: String,
    /// When the newest attempt was released to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<String>,
    /// When the newest attempt was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<String>,
    /// When the first attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_started_at: Option<String>,
    /// When the newest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, or the newest attempt did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How much after `fire_at` the first attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<u64>,
    /// Where that time went; known as long as the first attempt is the newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessSplit>,
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
    /// The group that its failure belongs to, while it is `DEAD`: sixteen hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "9f3a5c1e0b7d2846")]
    pub fingerprint: Option<String>,
    /// How often it was handed to a runner.
    #[serde(default)]
    pub deliveries: u32,
    /// When its running attempt was asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<String>,
    /// What the operator said who cancelled or discarded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What its running or last attempt told about itself; only where one execution is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Where the time between due and started went.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatenessSplit {
    /// From due until it was released to the queue.
    pub scheduler_ms: u64,
    /// From then until it was claimed.
    pub queue_ms: u64,
    /// From then until it started.
    pub worker_ms: u64,
}

/// What an attempt told about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// How far it is, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 0.61)]
    pub fraction: Option<f64>,
    /// What it does, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was told.
    pub at: String,
    /// Where a later attempt can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
}

/// What an execution's attempts logged, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Logs {
    /// The lines.
    pub data: Vec<LogEntry>,
    /// Whether there are more already.
    pub has_more: bool,
    /// The `after` that goes on behind these.
    pub next_after: u64,
}

/// A line that an attempt logged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// Its position.
    pub seq: u64,
    /// When, by the worker's clock, or when it arrived.
    pub at: String,
    /// How grave, such as `info`.
    pub level: String,
    /// The line.
    pub message: String,
}

/// How to cancel an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelRequest {
    /// How long a worker's running attempt gets to stop by itself; 0 ends it at once, 20 s where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Which fire of a job to cancel, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelFireRequest {
    /// An instant of the job's schedule, past or to come.
    #[schema(example = "2026-11-16T02:00:00Z")]
    pub at: String,
    /// How long a worker's running attempt gets to stop by itself; 0 ends it at once, 20 s where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
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
    /// `SUCCEEDED`, `FAILED`, `TIMED_OUT`, `WORKER_LOST`, `CANCELLED`, `SNOOZED` or `RELEASED`; absent while it runs.
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
