//! Pools: named capacity. Targets: whom actions are done to. Each may have limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pool, and what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    #[schema(example = "short")]
    pub name: String,
    /// At most this many attempts run at the same time; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Whether nothing starts until it is resumed.
    pub paused: bool,
    /// Executions that are due or soon due (`PENDING`).
    pub waiting: u64,
    /// Executions that run.
    pub running: u64,
    /// Executions that wait for another attempt.
    pub retrying: u64,
    /// Executions that wait for an earlier run of their job (`HELD`).
    #[serde(default)]
    pub held: u64,
    /// Executions that cannot go on before others do: `HELD` and `BLOCKED`.
    pub blocked: u64,
    /// Executions in the queue: they may start, and nobody has taken them yet.
    pub queued: u64,
    /// When the first of these was released to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_waiting_at: Option<String>,
    /// How long ago that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_waiting_ms: Option<u64>,
    /// Workers that ask for work of this pool now.
    pub workers: u64,
    /// When its limits were last changed; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// The limits of a pool, as sent. What is not sent has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolSpec {
    /// At most this many attempts run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 40)]
    pub slots: Option<u32>,
    /// Whether nothing starts until it is resumed; as before where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Whom actions are done to: a worker's handler, or the origin of a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Target {
    /// Its name.
    #[schema(example = "https://example.com")]
    pub name: String,
    /// At most this many attempts run at the same time; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// At most this many attempts start per second; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Attempts under way from this node.
    pub running: u64,
    /// Executions in its line on this node.
    pub waiting: u64,
    /// Whether it keeps failing, so that one probe at a time is sent.
    pub circuit_open: bool,
    /// When its limits were last changed; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// The limits of a target, as sent. What is not sent has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TargetSpec {
    /// At most this many attempts run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 8)]
    pub slots: Option<u32>,
    /// At most this many attempts start per second, 0.001 to 1000000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 2.5)]
    pub per_second: Option<f64>,
}
