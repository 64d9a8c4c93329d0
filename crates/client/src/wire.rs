//! What goes over the network: the only serde for HTTP in the project.
//!
//! Answers are snake_case, enums UPPER_SNAKE, instants RFC 3339 in UTC, durations whole milliseconds in fields that end
//! in `_ms`. New fields may appear in any answer; clients ignore what they do not know. What people send is read
//! in one place, [`input`], which accepts both dialects that are in use.

mod job;
mod schedule;
mod execution;
mod batch;
mod page;
mod problem;
mod status;
mod cluster;
mod worker;
mod fleet;
mod pool;
mod dead;
mod operation;
mod why;
mod endpoint;
mod stats;
pub mod input;
pub mod json;

pub use batch::{Batch, BatchItem, BatchRequest, ExecuteRequest};
pub use cluster::{Cluster, ClusterNode, ClusterShard};
pub use dead::{DeadGroup, DeadPlan, DiscardRefusal, DiscardRequest, Discarded, ReplayRequest};
pub use endpoint::{Delivery, WebhookEndpoint, WebhookEndpointSpec};
pub use execution::{
    Attempt, AttemptError, CancelFireRequest, CancelRequest, Execution, LatenessSplit, LogEntry, Logs, Progress,
    Response, Skip,
};
pub use fleet::WorkerStatus;
pub use job::{
    Action, Blackout, CatchUp, CatchUpSpec, Expect, ExpectSpec, Job, JobSpec, PauseRequest, RetryPolicy, RetrySpec,
    RevertRequest,
};
pub use operation::{BackfillPlan, BackfillRequest, Operation, OperationProgress, OperationSpec, PlannedFire};
pub use page::Page;
pub use pool::{Pool, PoolSpec, Target, TargetSpec};
pub use problem::{FieldProblem, Problem};
pub use schedule::{
    ExplainedField, Fire, Schedule, ScheduleExplanation, SchedulePreview, ScheduleQuestion, ScheduleSpec,
};
pub use stats::{Count, Counts, Quantiles, Stats, StatsStep, Tally};
pub use status::{Health, Lateness, Status, StoreStatus};
pub use why::Why;
pub use worker::{
    Beat, BeatResult, BeatStatus, ClaimRequest, ClaimResponse, ClaimedExecution, CompleteBatchRequest,
    CompleteBatchResponse, CompleteRequest, CompleteResponse, CompleteResult, CompleteStatus, Completion, Directive,
    HeartbeatRequest, HeartbeatResponse, LogLine, ReleaseRequest, WorkerError,
};
