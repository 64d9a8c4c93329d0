//! The moving parts of Campanile: the steps of the path, in the order in which a job travels. Read them in this order.
//!
//! The engine knows the contracts of `campanile-model` and nothing else: it never names a backend, never reads the
//! machine's clock, never draws from its entropy. Embedded and cluster are two configurations of the same code.
//!
//! A step uses the steps after it, and what is shared; never a step before it, but for run, which asks admit for work
//! (`cargo xtask check-path` looks).

// The path.

/// Step 1, accept: a request becomes a version of a job, or an execution at once.
pub mod accept;
/// Step 2, own: which shards this node fires for. The loop around the next three.
pub mod own;
/// Step 3, load: the jobs of the owned shards whose next fire is near come into memory.
pub mod load;
/// Step 4, fire: due (or soon due) entries become execution rows.
pub mod fire;
/// Step 5, flush: the store's cursors follow what is durable.
pub mod flush;
/// Step 6, dispatch: executions whose instant has come go to the queue.
pub mod dispatch;
/// Step 7, admit: of what was received, what may start now; the rest goes where it belongs.
pub mod admit;
/// Step 8, run: claim, and do what the job says: by this node, or by external workers.
pub mod run;
/// Step 9, complete: outcomes become states, retries, dead letters.
pub mod complete;
/// Step 10, reap: what was lost with its node or message.
pub mod reap;

// Beside the path.

/// Step 11, keep: what must be done for all, by the pulse.
pub mod keep;
/// Step 12, operate: what operators do.
pub mod operate;
/// Step 13, notify: events on their way to endpoints.
pub mod notify;
/// Step 14, why: did it run, and why not?
pub mod why;

// Shared: what several steps need, and what they hand each other.

/// What every part is given: store, queue, clock and the like.
pub mod context;
/// What this node is charged with: shards, and what one node does for all.
pub mod duty;
/// What the engine counts.
pub mod metrics;
/// Bells between the parts of a node.
pub mod bells;
/// Calls that are tried until the store answers, and the wish to stop.
pub mod calls;
/// What is said about a store that is away. Pure.
mod outage;
/// The timer wheel: an in-memory index of what is due. Pure.
pub mod wheel;
/// The jobs of the owned shards whose next fire is near: rows in, fires out. Pure.
pub mod planner;
/// What the owner of shards has in hand.
mod owned;
/// The way to dispatch.
pub mod dispatcher;
/// The way to complete.
pub mod outcomes;
/// What pools and targets can bear.
pub mod gate;
/// The lines of targets.
mod lines;
/// The attempts that run in this process.
pub mod running;
/// The external workers that were heard of.
pub mod workers;
/// Jobs that are there: found, and changed.
pub mod jobs;
/// Executions as callers ask for them.
pub mod executions;
/// Which version of a job governs an instant.
pub mod versions;

// All of it together.

/// Start, drain, stop.
pub mod service;
/// What everybody else holds: the calls behind the API.
pub mod handle;
/// Facts for operators.
pub mod status;

pub use context::{Context, Injected};
pub use handle::Handle;
pub use operate::Cancel;
pub use service::{Options, Service};
pub use status::{ClusterStatus, EngineStatus};
