//! Many jobs at once, and a run by name.

use super::{Job, JobSpec, Problem};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Jobs to create, at most 1000. Each is judged alone, and may have an `idempotency_key` of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchRequest {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
}

/// One result per job, in the same order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Batch {
    /// The results.
    pub results: Vec<BatchItem>,
    /// How many jobs were created, now or by the same key before.
    pub created: u32,
    /// How many were refused.
    pub failed: u32,
}

/// The result of one item.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchItem {
    /// What `POST /v1/jobs` would have answered.
    #[schema(example = 201)]
    pub status: u16,
    /// The job, where it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Box<Job>>,
    /// Why not, where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Whether the answer is that of an earlier request with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// Which job to run now: one of the three.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// By name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
