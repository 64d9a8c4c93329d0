//! The moving parts of Campanile, one file per step of the path. Read them in this order.
//!
//! The engine knows the contracts of `campanile-model` and nothing else: it never names a backend, never reads the
//! machine's clock, never draws from its entropy. Embedded and cluster are two configurations of the same code.

/// What every part is given: store, queue, clock and the like.
pub mod context;
/// What this node is charged with: shards, and what one node does for all.
pub mod duty;
/// Step 1, accept: a request becomes a job row.
pub mod intake;
/// The timer wheel: an in-memory index of what is due. Pure.
pub mod wheel;
/// Step 2, load: the next horizon of the owned shards' jobs, in the wheel. Pure.
pub mod shard;
/// Step 3, fire: due (or soon due) entries become execution rows.
pub mod fire;
/// Step 4, dispatch: executions whose instant has come go to the queue.
pub mod dispatch;
/// Step 5, work: receive, claim, run the action.
pub mod worker;
/// Step 5 for external workers: claim, heartbeat, complete, release.
pub mod pull;
/// Before a claim: what pools and targets can bear.
pub mod gate;
/// A target that keeps failing gets one probe at a time. Pure.
pub mod breaker;
/// The external workers that were heard of.
pub mod workers;
/// Step 6, complete: outcomes become states, retries, dead letters.
pub mod complete;
/// Step 7, reap: what was lost with its node or message.
pub mod reap;
/// One look at what there is to do, and a bell for whoever does it.
pub mod pulse;
/// What must be done now and then.
pub mod upkeep;
/// Operations: replays and backfills.
pub mod operate;
/// Notifications on their way to endpoints.
pub mod notify;
/// Which version of a job governs an instant.
pub mod versions;
/// Did it run, and why not?
pub mod why;
/// After a new zone database: jobs whose next fire moved.
pub mod rezone;
/// All parts together: start, drain, stop.
pub mod service;
/// What everybody else holds: the calls behind the API.
pub mod handle;
/// What the engine counts.
pub mod metrics;

pub use context::Context;
pub use handle::{Cancel, ClusterStatus, EngineStatus, Handle};
pub use service::{Options, Service};
