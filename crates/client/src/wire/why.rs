//! Did it run, and why not?

use super::{Attempt, Execution, Skip};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What became of a job at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `RAN`, `RUNNING`, `FAILED`, `WAITING`, `DID_NOT_RUN`, `WILL_RUN`, or `NO_LONGER_KEPT` (it ran, or nobody
    /// knows any more).
    #[schema(example = "DID_NOT_RUN")]
    pub verdict: String,
    /// Why, where it did not simply run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "OVERLAP_FORBIDDEN")]
    pub reason: Option<String>,
    /// The instant that the answer is about: the fire's, or the one that was asked for.
    pub at: String,
    /// The execution of that instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<Execution>>,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// The recorded skip that covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// Facts that show it.
    pub evidence: Vec<String>,
    /// What was looked at and was not the cause.
    pub not_the_cause: Vec<String>,
    /// What to do about it: commands.
    pub fixes: Vec<String>,
    /// The last fire of the schedule before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_fire_at: Option<String>,
    /// The next one after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<String>,
}
