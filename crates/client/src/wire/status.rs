//! How a server is.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Whether a server answers, or takes work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `OK`.
    pub status: String,
    /// Version of the server.
    pub version: String,
}

/// Facts for operators.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the server.
    pub version: String,
    /// Which node answers.
    pub node: String,
    /// Its clock.
    pub now: String,
    /// How long it has been up.
    pub uptime_ms: u64,
    /// Whether it fires.
    pub ready: bool,
    /// Version of the zone database that schedules are read with.
    pub zone_database: String,
    /// Its store.
    pub store: StoreStatus,
    /// Executions that wait in the queue.
    pub queue_depth: u64,
    /// Executions that were received and not yet claimed.
    pub queue_taken: u64,
    /// Jobs in the wheel: those that fire within the horizon.
    pub wheel_size: u64,
    /// Executions in memory that wait for their instant.
    pub waiting: u64,
    /// Attempts that run now.
    pub running: u64,
    /// External workers heard of within the last hour.
    #[serde(default)]
    pub workers: u64,
    /// Jobs whose stored cursor lags.
    pub cursors_dirty: u64,
    /// How late first attempts started.
    pub lateness: Lateness,
    /// Counters since the start.
    pub counters: BTreeMap<String, u64>,
}

/// Facts about a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// What kind of store.
    pub kind: String,
    /// Where it is.
    pub location: String,
    /// Number of its newest migration.
    pub schema: u32,
    /// Size on disk.
    pub bytes: u64,
    /// Live jobs.
    pub jobs: u64,
    /// Version of the zone database that the stored cursors were computed with.
    pub zone_database: String,
}

/// How late first attempts started since the start of the server, in milliseconds after their instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lateness {
    /// Half of them at most this.
    pub p50_ms: u64,
    /// 99 of a hundred at most this.
    pub p99_ms: u64,
    /// The latest.
    pub max_ms: u64,
}
