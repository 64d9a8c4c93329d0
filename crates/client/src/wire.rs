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
pub mod input;
pub mod json;

pub use batch::{Batch, BatchItem, BatchRequest, ExecuteRequest};
pub use execution::{Attempt, AttemptError, Execution, Response, Skip};
pub use job::{Action, CatchUp, CatchUpSpec, Job, JobSpec, RetryPolicy, RetrySpec};
pub use page::Page;
pub use problem::{FieldProblem, Problem};
pub use schedule::{
    ExplainedField, Fire, Schedule, ScheduleExplanation, SchedulePreview, ScheduleQuestion, ScheduleSpec,
};
pub use status::{Health, Lateness, Status, StoreStatus};
