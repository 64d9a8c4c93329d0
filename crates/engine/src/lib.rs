//! The moving parts of Campanile, one file per step of the path. Read them in this order.
//!
//! The engine knows the contracts of `campanile-model` and nothing else: it never names a backend, never reads the
//! machine's clock, never draws from its entropy. Embedded and cluster are two configurations of the same code.

/// What every part is given: store, queue, clock and the like.
pub mod context;
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
/// Step 6, complete: outcomes become states, retries, dead letters.
pub mod complete;
/// Step 7, reap: what was lost with its node or message.
pub mod reap;
/// After a new zone database: jobs whose next fire moved.
pub mod rezone;
/// All parts together: start, handle, drain.
pub mod service;
/// What the engine counts.
pub mod metrics;

pub use context::Context;
pub use service::{EngineStatus, Handle, Options, Service};
