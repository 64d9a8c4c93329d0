//! Facts for operators: this node, and the nodes.

use crate::context::Context;
use crate::keep::rezone;
use campanile_model::action::Runner;
use campanile_model::coordinator::Member;
use campanile_model::queue::Depth;
use campanile_model::schedule::zone_database_version;
use campanile_model::store::{ShardOwner, StoreStatus};
use campanile_model::{Result, Timestamp};

#[derive(Clone, Debug)]
pub struct EngineStatus {
    pub node: String,
    pub ready: bool,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// What time it thinks it is.
    pub now: Timestamp,
    /// The zone database in the binary.
    pub zone_database: String,
    pub store: StoreStatus,
    /// The zone database that the store's cursors were computed with.
    pub store_zone_database: String,
    /// The queue, as far as this node's own work is concerned.
    pub queue: Depth,
    /// External workers heard of within the last hour.
    pub workers: u64,
    /// Jobs in memory: those that fire within the horizon.
    pub planned_jobs: u64,
    /// Executions in memory that wait for their instant.
    pub waiting: u64,
    /// Attempts that run in this process.
    pub running: u64,
    /// Jobs whose stored cursor lags.
    pub cursors_dirty: u64,
    /// Counters since the start, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Lateness of first attempts since the start: the median, in milliseconds.
    pub lateness_p50_ms: u64,
    /// The 99th percentile.
    pub lateness_p99_ms: u64,
    pub lateness_max_ms: u64,
}

/// The nodes, and what they own.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    pub node: String,
    /// Those that are alive.
    pub members: Vec<Member>,
    /// Who opened which shard last, in which epoch.
    pub shards: Vec<ShardOwner>,
}

/// Facts about this node, which has been running since `started_mono_ms` and fires if it is `ready`.
pub async fn engine(ctx: &Context, started_mono_ms: u64, ready: bool) -> Result<EngineStatus> {
    let metrics = &ctx.metrics;
    Ok(EngineStatus {
        node: ctx.node.to_string(),
        ready,
        uptime_ms: ctx.clock.monotonic_ms() - started_mono_ms,
        now: ctx.clock.now(),
        zone_database: zone_database_version().to_owned(),
        store: ctx.store.status().await?,
        store_zone_database: rezone::noted(ctx).await?.unwrap_or_default(),
        queue: ctx.queue.depth(Runner::Node).await?,
        workers: ctx.workers.list().len() as u64,
        planned_jobs: metrics.planned_jobs.get(),
        waiting: metrics.waiting.get(),
        running: ctx.running.len() as u64,
        cursors_dirty: metrics.cursors_dirty.get(),
        counters: metrics.counters(),
        lateness_p50_ms: metrics.lateness_ms.quantile(0.5),
        lateness_p99_ms: metrics.lateness_ms.quantile(0.99),
        lateness_max_ms: metrics.lateness_ms.quantile(1.0),
    })
}

/// Who is alive, and who owns what.
pub async fn cluster(ctx: &Context) -> Result<ClusterStatus> {
    Ok(ClusterStatus {
        node: ctx.node.to_string(),
        members: ctx.coordinator.members().await?,
        shards: ctx.store.status().await?.shards,
    })
}
