//! Dead letters: groups of them, and what can be done about them.

use super::Execution;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Dead executions that died of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadGroup {
    /// What they share: target, kind of error, and the message without what varies. Sixteen hexadecimal digits.
    #[schema(example = "9f3a5c1e0b7d2846")]
    pub fingerprint: String,
    /// Whom it happened to: a worker's handler, or the origin of a URL.
    pub target: String,
    /// Kind of the error.
    #[schema(example = "http_503")]
    pub kind: String,
    /// Message of the newest one.
    pub message: String,
    /// How many there are now.
    pub count: u64,
    /// When the first one died, of those since the group was last empty.
    pub first_at: String,
    /// When the last one died.
    pub last_at: String,
    /// The newest one.
    pub sample: String,
}

/// Which dead executions to run again, and how carefully: one of `executions`, `filter`, `fingerprint` and `all`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayRequest {
    /// These, at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<String>,
    /// All dead ones that match this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "job:nightly-* scheduled:-24h..now")]
    pub filter: Option<String>,
    /// All dead ones of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// All dead ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// At most this many are started per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// The same as a text: `50/s`, `10/m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "50/s")]
    pub rate: Option<String>,
    /// At most this many are open at the same time, 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// This many are tried first, and all of them must be over before the rest starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 10)]
    pub canary: Option<u64>,
    /// It stops when more than this share of those that are over failed, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 20)]
    pub stop_if_failing_percent: Option<f64>,
}

/// What a replay or a discard would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadPlan {
    /// Always true: nothing was done.
    pub dry_run: bool,
    /// How many dead executions it is about.
    pub count: u64,
    /// Whether there are more than that: counting stops at some point.
    pub more: bool,
    /// The first few.
    pub samples: Vec<Execution>,
}

/// Which dead executions to give up: one of `executions`, `filter`, `fingerprint` and `all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardRequest {
    /// These, at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<String>,
    /// All dead ones that match this filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// All dead ones of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// All dead ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Why; kept with each of them.
    #[schema(example = "fixed by hand, see incident 42")]
    pub reason: String,
}

/// What was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Discarded {
    /// How many.
    pub discarded: u64,
    /// Those of `executions` that were not.
    pub refused: Vec<DiscardRefusal>,
}

/// An execution that was not given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiscardRefusal {
    /// Which.
    pub id: String,
    /// Why: `execution_not_dead` or `execution_not_found`.
    #[schema(example = "execution_not_dead")]
    pub code: String,
    /// The state it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}
