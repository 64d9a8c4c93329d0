//! Operations: replays and backfills, which take a while.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Work on many executions that takes a while, can be watched and stopped, and goes on after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Identity.
    #[schema(example = "op_01J9ZC0000000000000000TEST")]
    pub id: String,
    /// `REPLAY` or `BACKFILL`.
    pub kind: String,
    /// `RUNNING`, `DONE`, `STOPPED` (too much of it failed) or `CANCELLED`.
    pub state: String,
    /// Whether it is over.
    pub is_final: bool,
    /// What to do.
    pub spec: OperationSpec,
    /// How far it got.
    pub progress: OperationProgress,
    /// What there is to say about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was accepted.
    pub created_at: String,
    /// When it last moved.
    pub updated_at: String,
}

/// What an operation does, as it was asked for and understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationSpec {
    /// A replay: these executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<String>,
    /// A replay: all dead ones that match this, with its times written out; empty for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// A backfill: of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// A backfill: from this instant, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A backfill: to this instant, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// A backfill: what is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reprocess: Option<String>,
    /// At most this many are started per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// At most this many are open at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u64>,
    /// This many are tried first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<u64>,
    /// It stops when more than this share fails, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_if_failing_percent: Option<f64>,
}

/// How far an operation got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationProgress {
    /// Executions that it set out to start, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Started.
    pub started: u64,
    /// Passed over: they were not dead any more, or had succeeded already.
    pub passed_over: u64,
    /// Of the started ones, those that succeeded.
    pub succeeded: u64,
    /// Of the started ones, those that did not.
    pub failed: u64,
    /// Started and not over.
    pub open: u64,
    /// Whether the canary is over, where there is one.
    pub canary_over: bool,
}

/// Which past fires of a job to fill in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillRequest {
    /// From this instant, inclusive: RFC 3339, `now`, or a distance from now such as `-2h`.
    #[schema(example = "2026-11-10T00:00:00Z")]
    pub from: String,
    /// To this instant, exclusive; now where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-14T00:00:00Z")]
    pub to: Option<String>,
    /// At most this many are open at the same time, 1 to 1000; 1 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Which fires that have an execution are done again: `NONE`, `FAILED` or `ALL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reprocess: Option<String>,
    /// At most this many are started per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The same as a text: `50/s`, `10/m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

/// What a backfill would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillPlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// Fires in the range.
    pub fires: u64,
    /// Of these, those that it starts.
    pub starts: u64,
    /// Of these, those that are older than what is kept, so that nobody knows whether they ran; started only by `reprocess: all`.
    #[serde(default)]
    pub unknown: u64,
    /// The first few and the last.
    pub samples: Vec<PlannedFire>,
}

/// A fire that a backfill would look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedFire {
    /// When it was due.
    pub fire_at: String,
    /// The state of its execution, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether the backfill starts it.
    pub starts: bool,
    /// Why not, where that is plain: `DEDUPLICATED` when it has succeeded already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
