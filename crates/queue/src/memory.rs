//! A queue inside the process.
//!
//! Before: dispatch. After: worker. Executions wait by (runner, pool), then by priority, then by target, then by tenant:
//!
//! - Between *pools* that a receiver may take from, each gets an even share of the batch; pools are separate capacity.
//! - Between *priorities*, smooth weighted round robin over those that have something for the receiver: 8 : 4 : 2 : 1.
//!   With all four waiting, CRITICAL gets more than half, and LOW still one in fifteen: urgent work goes first, none
//!   starves. The shares are counted for each set of targets that is asked for, so that no receiver's turns can always
//!   fall on what another one wants.
//! - Between *targets* of workers (their handlers), one execution each in turn. What is for nodes is not split by target:
//!   origins of URLs are many, and a node takes them all.
//! - Between *tenants* of one target, deficit round robin: each takes at most `shares::QUANTUM` executions in its turn,
//!   however many it has waiting. A turn that a full batch cuts short goes on with the next batch.
//! - Of one tenant, priority and target, first in first out. What is released goes back to the front.
//!
//! Receivers wait in line, too. What arrives is laid down at once for those in line who want it, longest waiting first,
//! and only they are woken; one that gives up with something laid down for it puts that back, for the next one. So there
//! is one invariant, and no wake-up to be lost: *nothing waits that somebody in line wants*.
//!
//! One lock per call, never held across an await, for O(batch) and what it takes to look up the names that a receiver
//! asks for or excludes. Items lie in chunks, so that a burst of a million moves nothing when it grows and gives its
//! memory back while it drains; what is empty (chunk, tenant, target, pool) is dropped.
//!
//! A crash loses everything here, which costs time and no execution: the store still has them as not yet claimed.

mod side;
mod pool;
mod lane;

use self::side::{End, Side};
use crate::want::Want;
use crate::{RUNNERS, counts_of};
use campanile_model::action::Runner;
use campanile_model::fault::{self, Bug, Point, planted};
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::{Error, ExecutionId, Kind, Result, limits};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// A queue inside the process.
#[derive(Debug)]
pub struct MemoryQueue {
    state: Mutex<State>,
    items_max: usize,
}

impl Default for MemoryQueue {
    fn default() -> Self {
        Self::bounded(limits::QUEUE_ITEMS_MAX)
    }
}

impl MemoryQueue {
    /// An empty queue that holds up to `limits::QUEUE_ITEMS_MAX` waiting executions.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue that holds up to `items_max` waiting executions. A batch beyond that is refused whole, as
    /// unavailable; the store keeps it until there is room. What is released is always taken back.
    pub fn bounded(items_max: usize) -> Self {
        Self { state: Mutex::default(), items_max }
    }

    /// What `publish` does, at once.
    pub(crate) fn put(&self, batch: Vec<Dispatch>) -> Result<()> {
        fault::reach(Point("queue.publish.before"));
        let mut state = self.state.lock();
        for (runner, more) in RUNNERS.into_iter().zip(counts_of(&batch)) {
            let waiting = state.side(runner).waiting();
            if more > 0 && waiting + more > self.items_max {
                let message = format!("the queue is full: {waiting} waiting, at most {}", self.items_max);
                return Err(Error::new(Kind::Unavailable, message).with_code("queue_full"));
            }
        }
        state.put(batch, End::Back);
        fault::reach(Point("queue.publish.after"));
        Ok(())
    }

    /// Puts items where they are the next to be taken.
    pub(crate) fn put_in_front(&self, batch: Vec<Dispatch>) {
        self.state.lock().put(batch, End::Front);
    }

    /// Takes up to `limit` out for each kind of runner, to be put elsewhere.
    pub(crate) fn take_out(&self, limit: usize) -> Vec<Dispatch> {
        let mut state = self.state.lock();
        let mut batch = Vec::new();
        for runner in RUNNERS {
            let taken = state.side(runner).take(&Want::anything(), limit);
            state.side(runner).settle(taken.len());
            batch.extend(taken);
        }
        batch
    }

    /// How full it is, as far as one kind of runner is concerned.
    pub(crate) fn fill(&self, runner: Runner) -> Depth {
        let mut state = self.state.lock();
        let side = state.side(runner);
        Depth { waiting: side.waiting(), taken: side.taken() }
    }

    /// That many of the taken ones were decided, or come back.
    pub(crate) fn settle(&self, runner: Runner, count: usize) {
        self.state.lock().side(runner).settle(count);
    }

    /// The same, of those that were taken here; answers how many these were.
    pub(crate) fn settle_own(&self, runner: Runner, count: usize) -> usize {
        let mut state = self.state.lock();
        let own = state.side(runner).taken().min(count);
        state.side(runner).settle(own);
        own
    }

    /// Strikes out what waits here: a look at all that waits, a pool at a time, so that nobody else waits for long.
    pub(crate) fn strike_out(&self, executions: &mut HashSet<ExecutionId>) {
        for runner in RUNNERS {
            let names: Vec<Arc<str>> =
                self.state.lock().side(runner).pools().map(|(name, _)| Arc::clone(name)).collect();
            for name in names {
                let mut state = self.state.lock();
                let pool = state.side(runner).pools().find(|(pool, _)| **pool == name);
                pool.into_iter()
                    .flat_map(|(_, pool)| pool.items())
                    .for_each(|item| _ = executions.remove(&item.execution));
            }
        }
    }
}

#[async_trait::async_trait]
impl Queue for MemoryQueue {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.put(batch)
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        if want.limit == 0 {
            return Ok(Vec::new());
        }
        let (runner, limit) = (want.runner, want.limit);
        let want = Arc::new(Want::of(want));
        let (mut place, bell) = {
            let mut state = self.state.lock();
            let side = state.side(runner);
            let taken = side.take(&want, limit);
            if !taken.is_empty() {
                return Ok(taken);
            }
            let (ticket, bell) = side.stand_in_line(&want, limit);
            (Place { queue: self, runner, want, ticket: Some(ticket) }, bell)
        };
        bell.notified().await;
        // Nothing is awaited from here on: a receiver dropped before it answered has taken nothing.
        Ok(place.pick_up(limit))
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.settle(runner, executions.len());
        Ok(())
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.state.lock().put_back(batch);
        Ok(())
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        Ok(self.fill(runner))
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        let mut depths = Vec::new();
        {
            let mut state = self.state.lock();
            for runner in RUNNERS {
                let pools = state.side(runner).pools();
                depths.extend(pools.map(|(name, pool)| PoolDepth {
                    pool: Arc::clone(name),
                    runner,
                    waiting: pool.waiting(),
                    oldest_queued_at: pool.oldest_queued_at(),
                }));
            }
        }
        depths.sort_by(|a, b| (&a.pool, a.runner).cmp(&(&b.pool, b.runner)));
        Ok(depths)
    }
}

/// A receiver's place in line; given up when it is dropped.
struct Place<'a> {
    queue: &'a MemoryQueue,
    runner: Runner,
    want: Arc<Want>,
    ticket: Option<u64>,
}

impl Place<'_> {
    /// Takes what was laid down, and what came since that nobody in line wants: a bigger batch costs no more.
    fn pick_up(&mut self, limit: usize) -> Vec<Dispatch> {
        let mut state = self.queue.state.lock();
        let side = state.side(self.runner);
        let mut taken = self.ticket.take().map(|ticket| side.leave(&self.want, ticket)).unwrap_or_default();
        assert!(!taken.is_empty(), "a receiver was woken for nothing");
        if taken.len() < limit {
            taken.extend(side.take(&self.want, limit - taken.len()));
        }
        taken
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut state = self.queue.state.lock();
            let laid_down = state.side(self.runner).leave(&self.want, ticket);
            if planted(Bug("lost-with-its-receiver")) {
                // asynq#55: popped for a process that is not there any more.
                return;
            }
            state.put_back(laid_down);
        }
    }
}

/// Two sides: what is for nodes never meets what is for external workers.
#[derive(Debug, Default)]
struct State {
    nodes: Side,
    workers: Side,
}

impl State {
    fn side(&mut self, runner: Runner) -> &mut Side {
        match runner {
            Runner::Node => &mut self.nodes,
            Runner::Worker => &mut self.workers,
        }
    }

    fn put(&mut self, batch: Vec<Dispatch>, end: End) {
        let mut put_one = |item: Dispatch| self.side(item.action.runner()).put(item, end);
        match end {
            End::Back => batch.into_iter().for_each(&mut put_one),
            // From the last to the first, so that the first is in front again.
            End::Front => batch.into_iter().rev().for_each(&mut put_one),
        }
        RUNNERS.into_iter().for_each(|runner| self.side(runner).serve());
    }

    /// What was taken, and waits again.
    fn put_back(&mut self, batch: Vec<Dispatch>) {
        for item in &batch {
            self.side(item.action.runner()).settle(1);
        }
        self.put(batch, End::Front);
    }
}

#[cfg(test)]
mod tests;
