//! The worker protocol: how work is taken, kept, ended and given back.
//!
//! In the order of an attempt's life: claim, heartbeat, complete; and release, for what was never started. Whoever
//! claims gets a fence with each execution, and shows it with every later call about it: a larger one makes it void.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Who wants work, how much, and of what kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimRequest {
    /// Who asks: the same text in all calls of one worker process.
    #[schema(example = "w-42")]
    pub worker_id: String,
    /// How many executions it can start now.
    #[schema(example = 10)]
    pub capacity: u32,
    /// Only from these pools; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
    /// Only for these handlers; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// How long to wait for the first one, at most a minute; 0 answers at once.
    #[serde(default)]
    pub wait_ms: u64,
    /// What the worker is made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "rust/0.1.0")]
    pub sdk: Option<String>,
}

/// The work that was given, which is durable by now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ClaimResponse {
    /// What to run, at most as many as were asked for.
    pub executions: Vec<ClaimedExecution>,
    /// What the worker should do from now on.
    #[serde(default)]
    pub directive: Directive,
}

/// One attempt that is now the worker's.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClaimedExecution {
    /// Identity, the same for every attempt: the key for deduplication.
    #[schema(example = "exe_01J9ZC0000000000000000TEST")]
    pub execution_id: String,
    /// Of which job.
    pub job_id: String,
    /// Its name.
    pub job_name: String,
    /// The version that it was fired under.
    pub job_version: u32,
    /// What to run.
    #[schema(example = "generate_invoices")]
    pub handler: String,
    /// The pool it came from.
    pub pool: String,
    /// What to run it with.
    #[schema(value_type = serde_json::Value)]
    pub payload: Box<RawValue>,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// The instant it was due.
    pub scheduled_at: String,
    /// The first missed instant that this run stands for, where it stands for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers_from: Option<String>,
    /// When this attempt times out.
    pub deadline_at: String,
    /// Grows with every attempt; goes with every call about this one.
    pub fence_token: u64,
    /// How long it is the worker's without a heartbeat.
    pub lease_ms: u64,
    /// How often to send one.
    pub heartbeat_ms: u64,
    /// Time limit of this attempt.
    pub timeout_ms: u64,
    /// Where an earlier attempt got to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
}

/// What a worker should do, beside what it does.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Directive {
    /// Claim nothing for a few seconds; keep what runs.
    Quiet,
    /// Claim nothing more, finish what runs, and end.
    Drain,
    /// Go on. What a newer server may add means the same to us.
    #[default]
    #[serde(other)]
    Run,
}

/// Signs of life for all that a worker runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatRequest {
    /// Who runs them.
    pub worker_id: String,
    /// What it runs, each with its fence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<Beat>,
    /// The short form: only ids, which are then checked by `worker_id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub execution_ids: Vec<String>,
}

/// A sign of life of one attempt, with its news.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Beat {
    /// The execution.
    pub id: String,
    /// The fence of the attempt.
    pub fence_token: u64,
    /// How far it is, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 0.61)]
    pub progress: Option<f64>,
    /// What it does now, for people; at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where a later attempt can go on; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
    /// What it said since the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogLine>,
}

/// One line that an attempt said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// When, RFC 3339; when it arrived, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How grave, such as `info` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The line, at most 4 KiB.
    pub message: String,
}

/// What became of the signs of life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatResponse {
    /// One result per execution, in the same order.
    pub results: Vec<BeatResult>,
    /// What the worker should do from now on.
    #[serde(default)]
    pub directive: Directive,
}

/// What became of one sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BeatResult {
    /// The execution.
    pub id: String,
    /// Whether it may go on.
    pub status: BeatStatus,
    /// How long it is the worker's from now on, without another one.
    #[serde(default)]
    pub lease_ms: u64,
    /// Why it may not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether an attempt may go on.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BeatStatus {
    /// Yes.
    Extended,
    /// It should stop soon, and complete as `CANCELLED`; as `TIMED_OUT` where the reason is `TIMEOUT`.
    Cancel,
    /// It is no longer the worker's: it should stop at once, and complete nothing.
    Stale,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompleteRequest {
    /// How.
    pub status: CompleteStatus,
    /// The fence of the attempt. Without it, `worker_id` is checked instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_token: Option<u64>,
    /// Who ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What came of it; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WorkerError>,
    /// For `SNOOZED`: how long from now until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snooze_ms: Option<u64>,
    /// What it said since the last heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogLine>,
    /// Text that is kept with the attempt, such as what a program printed; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// How an attempt can end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CompleteStatus {
    /// It did what it should.
    #[serde(alias = "succeeded")]
    Succeeded,
    /// It did not; `error` says why, and whether another try makes sense.
    #[serde(alias = "failed")]
    Failed,
    /// It was stopped at its time limit.
    #[serde(alias = "timed_out")]
    TimedOut,
    /// It asks to be tried later, which burns no attempt.
    #[serde(alias = "snoozed")]
    Snoozed,
    /// It stopped because it was told to.
    #[serde(alias = "cancelled")]
    Cancelled,
}

/// What went wrong in a worker's attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerError {
    /// Short and stable: what failures are grouped by.
    #[serde(rename = "type", default = "error_kind")]
    #[schema(example = "card_declined")]
    pub kind: String,
    /// For people, at most 4 KiB.
    #[serde(default)]
    pub message: String,
    /// Where, or what caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Whether another try makes sense; the job's policy decides about it then.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// No earlier than this from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// How many attempts ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CompleteBatchRequest {
    /// How each ended; each is judged alone.
    pub completions: Vec<Completion>,
}

/// How the attempt of one execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Completion {
    /// The execution.
    pub id: String,
    /// How it ended.
    #[serde(flatten)]
    pub complete: CompleteRequest,
}

/// One result per completion, in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteBatchResponse {
    /// The results.
    pub results: Vec<CompleteResult>,
}

/// What became of one completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteResult {
    /// The execution.
    pub id: String,
    /// What `POST /internal/v1/executions/{id}/complete` would have answered: 200, 409 (another fence) or 404.
    #[schema(example = 200)]
    pub status: u16,
    /// The state of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it is tried again, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// The code of the problem, where it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "stale_fence")]
    pub error: Option<String>,
}

/// What became of an execution whose attempt ended or was given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompleteResponse {
    /// The execution.
    pub execution_id: String,
    /// Its state.
    #[schema(example = "RETRYING")]
    pub state: String,
    /// When it is tried again, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
}

/// Gives back what was claimed and never started; burns no attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseRequest {
    /// The fence of the claim.
    pub fence_token: u64,
    /// Who claimed it.
    pub worker_id: String,
}

impl CompleteRequest {
    /// An end without details.
    pub fn new(status: CompleteStatus) -> Self {
        Self {
            status,
            fence_token: None,
            worker_id: None,
            duration_ms: None,
            result: None,
            error: None,
            snooze_ms: None,
            logs: Vec::new(),
            output: None,
        }
    }
}

fn error_kind() -> String {
    "error".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_short_forms_are_read() {
        let claim: ClaimRequest = serde_json::from_value(json!({"worker_id": "w", "capacity": 10})).unwrap();
        assert_eq!(claim, ClaimRequest { worker_id: "w".into(), capacity: 10, ..Default::default() });
        let beat = json!({"worker_id": "w", "execution_ids": ["a", "b"]});
        let read: HeartbeatRequest = serde_json::from_value(beat.clone()).unwrap();
        assert_eq!((read.executions.len(), read.execution_ids.len()), (0, 2));
        assert_eq!(serde_json::to_value(read).unwrap(), beat);
        let complete = json!({"status": "SUCCEEDED", "duration_ms": 34200});
        let read: CompleteRequest = serde_json::from_value(complete.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), complete);
        let failed = json!({"status": "failed", "error": {"message": "no"}});
        let error = serde_json::from_value::<CompleteRequest>(failed).unwrap().error.unwrap();
        assert_eq!((error.kind.as_str(), error.retryable), ("error", true));
    }

    #[test]
    fn a_batch_is_flat() {
        let completion = json!({"completions": [{"id": "e", "status": "TIMED_OUT", "fence_token": 7}]});
        let read: CompleteBatchRequest = serde_json::from_value(completion.clone()).unwrap();
        assert_eq!(read.completions[0].complete.fence_token, Some(7));
        assert_eq!(serde_json::to_value(read).unwrap(), completion);
    }

    #[test]
    fn payloads_keep_their_digits_and_new_directives_mean_go_on() {
        let text = r#"{"executions":[{"execution_id":"e","job_id":"j","job_name":"n","job_version":1,"handler":"h",
            "pool":"p","payload":{"n":123456789012345678901234567890},"attempt":1,"max_attempts":3,
            "scheduled_at":"2026-01-01T00:00:00Z","deadline_at":"2026-01-01T00:01:00Z","fence_token":9,
            "lease_ms":30000,"heartbeat_ms":10000,"timeout_ms":60000,"traceparent":"x"}],"directive":"DANCE"}"#;
        let read: ClaimResponse = serde_json::from_str(text).unwrap();
        assert_eq!(read.executions[0].payload.get(), r#"{"n":123456789012345678901234567890}"#);
        assert_eq!(read.directive, Directive::Run);
        let words = [Directive::Run, Directive::Quiet, Directive::Drain].map(|d| serde_json::to_value(d).unwrap());
        assert_eq!(words, ["RUN", "QUIET", "DRAIN"]);
    }
}
