//! The external workers that a server has heard of.

use super::worker::Directive;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is known of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStatus {
    /// What it calls itself.
    #[schema(example = "w-42")]
    pub id: String,
    /// The same as `id`.
    pub worker_id: String,
    /// The pools it asks for; none means any.
    pub pools: Vec<String>,
    /// The handlers it has; none means any.
    pub handlers: Vec<String>,
    /// What it is made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk: Option<String>,
    /// How many executions it last asked for.
    pub capacity: u64,
    /// How many it last sent a heartbeat for.
    pub running: u64,
    /// Whether it was heard of lately enough to count as there.
    pub present: bool,
    /// When it was first heard of.
    pub first_seen_at: String,
    /// When it was last heard of.
    pub last_seen_at: String,
    /// What it is told with its next call.
    pub directive: Directive,
}
