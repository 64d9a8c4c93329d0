//! The contract of a queue: from ready executions to whoever runs them.
//!
//! The queue is a hint and the store is the truth. A lost message is published again by the reaper, a duplicate loses its
//! claim. So a channel in memory, a table and a Kafka topic all fit these few calls.

use crate::action::{ActionKind, Runner};
use crate::error::Result;
use crate::ids::{ExecutionId, JobId, TenantId};
use crate::job::Priority;
use crate::store::ChangeSeq;
use crate::time::Timestamp;
use std::sync::Arc;

/// A ready execution on its way to a runner.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    pub execution: ExecutionId,
    pub job: JobId,
    /// The instant it was due.
    pub fire_at: Timestamp,
    /// The capacity it needs.
    pub pool: Arc<str>,
    pub tenant: TenantId,
    /// The job's version that it was fired under.
    pub job_version: u32,
    /// Attempts so far; the claim is guarded by it.
    pub attempt: u32,
    pub priority: Priority,
    pub action: ActionKind,
    /// Whom it is done to: a worker's handler, or the origin of a URL.
    pub target: Arc<str>,
    /// When it was released to the queue; `None` before.
    pub queued_at: Option<Timestamp>,
    /// Up to where whoever fired it had seen the changes of jobs, and `job_version` was the newest of its job there: if nothing has
    /// changed since, nobody need look. Zero where that is not known. It is lost on the way through a table.
    pub as_of: ChangeSeq,
}

/// What a runner wants.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Which kind of runner asks.
    pub runner: Runner,
    /// From these pools; empty means from any.
    pub pools: Vec<Arc<str>>,
    /// But not from these, which are paused or full.
    pub except: Vec<Arc<str>>,
    /// Only for these targets; empty means for any. Only for workers: they name their handlers.
    pub targets: Vec<Arc<str>>,
    /// Nothing that is less urgent than this.
    pub least: Priority,
    /// At most this many.
    pub limit: usize,
}

/// How full a queue is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Depth {
    /// Published and not yet received.
    pub waiting: usize,
    /// Received and neither acknowledged nor released.
    pub taken: usize,
}

/// What waits in one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDepth {
    pub pool: Arc<str>,
    /// For which kind of runner.
    pub runner: Runner,
    /// Published and not yet received.
    pub waiting: usize,
    /// When the first of these was released to the queue.
    pub oldest_queued_at: Option<Timestamp>,
}

/// Transport of ready executions. Ordered by priority with a share for the low ones; fair between tenants.
#[async_trait::async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Hands over ready executions.
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()>;
    /// Waits until there is something, and takes it.
    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>>;
    /// Forgets what was received: its claim was decided.
    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()>;
    /// Gives back what was received and not tried.
    async fn release(&self, batch: Vec<Dispatch>) -> Result<()>;
    /// How full it is, as far as one kind of runner is concerned: what waits for nobody else's capacity must not hold this
    /// kind up.
    async fn depth(&self, runner: Runner) -> Result<Depth>;
    /// Whether what waits here outlives its publisher: then nobody publishes it again when that is gone, unless nothing waits
    /// here at all. What was received is lost with its receiver everywhere.
    fn outlives(&self) -> bool {
        false
    }
    /// Whether this node is the only one, as far as is known: then a queue that nodes share may keep to itself what waits.
    fn alone(&self, _is_alone: bool) {}
    /// Which of these, overdue and of pools in which others wait, are not waiting here: they were lost on their way. A queue
    /// that loses nothing while it lives need not look.
    async fn missing(&self, _executions: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
        Ok(Vec::new())
    }
    /// How full each pool is that is not empty.
    async fn pools(&self) -> Result<Vec<PoolDepth>>;
}
