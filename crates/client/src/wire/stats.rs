//! What happened per minute or longer, and how many executions there are in which state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happened in a range, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Start of the first step.
    pub from: String,
    /// End of the last one, exclusive.
    pub to: String,
    /// Width of a step; whole minutes.
    pub step_ms: u64,
    /// All steps together.
    pub total: Tally,
    /// The steps, oldest first, also those in which nothing happened.
    pub steps: Vec<StatsStep>,
}

/// What happened in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatsStep {
    /// Its start.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Numbers of what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tally {
    /// Executions that succeeded.
    pub succeeded: u64,
    /// Attempts that failed and were to be tried again.
    pub failed: u64,
    /// Executions that died.
    pub dead: u64,
    /// Executions that were cancelled.
    pub cancelled: u64,
    /// Executions that were skipped.
    pub skipped: u64,
    /// How late first attempts started; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Quantiles>,
    /// How long last attempts ran; absent where none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Quantiles>,
}

/// Upper bounds of quantiles, from buckets that double in width. 4194304 (70 minutes) is the largest, and stands for
/// everything above it too.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quantiles {
    /// Half of them at most this.
    pub p50_ms: u64,
    /// 99 of a hundred at most this.
    pub p99_ms: u64,
    /// How many there were.
    pub count: u64,
}

/// How many executions are in which state, by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// One per pool and state that is not empty.
    pub data: Vec<Count>,
}

/// How many executions of a pool are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// In which pool.
    pub pool: String,
    /// In which state.
    pub state: String,
    /// How many.
    pub executions: u64,
}
