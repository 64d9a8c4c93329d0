//! The contract of a store: the truth. Everything else can be rebuilt from it.
//!
//! It has four roles, a file each: `Jobs` (the catalogue), `Path` (what owners and runners do), `Reads` (what people read) and
//! `Records` (small things that somebody writes down). `Store` is all four.
//!
//! Every write takes a batch and answers one verdict per item: losing a race is an answer, not an error. An answer comes
//! only after the write is durable. An error means that nothing of the batch happened, unless its kind is
//! `OutcomeUnknown`. Batches are taken by value, because a store hands them to its writer; callers keep what they need to
//! try again.
//!
//! Who may write is said by fences: `ShardFence` for owners, `AttemptFence` for runners. What may happen to an execution is said
//! by `lifecycle`.

mod jobs;
mod path;
mod reads;
mod records;

pub use jobs::*;
pub use path::*;
pub use reads::*;
pub use records::*;

use crate::lifecycle::State;

/// The truth: all four roles.
pub trait Store: Jobs + Path + Reads + Records {}

impl<T: Jobs + Path + Reads + Records> Store for T {}

/// The answer to one item of a guarded write.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Applied {
    Done,
    /// It did not: the row is in this state, or the fence is not its newest.
    Stale {
        /// The state the row is in.
        state: State,
    },
    /// There is no such row.
    Gone,
}

/// The answer of a verb of the path: what became of each item, and what the write made ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts<V> {
    /// One per item, in the order of the batch.
    pub verdicts: Vec<V>,
    /// Executions that wait from now on and were not waiting before: replayed ones, and those that an overlap held. The
    /// caller dispatches them. What was just fired, and retries, are not among them: the caller knows those. Should the
    /// answer be lost, the reaper finds them: they are overdue and in nobody's queue.
    pub ready: Vec<Waiting>,
}

impl<V> Verdicts<V> {
    /// Verdicts that made nothing ready.
    pub fn of(verdicts: Vec<V>) -> Self {
        Self { verdicts, ready: Vec::new() }
    }
}

impl<V> Default for Verdicts<V> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Whether there are more.
    pub has_more: bool,
}
