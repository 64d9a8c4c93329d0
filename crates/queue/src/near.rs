//! A queue that keeps what waits in the process while its node is alone, and in the table while it is not.
//!
//! Before: dispatch. After: worker. A row that is put into a table and deleted again by the same node is two statements
//! for nothing: a fifth of what a no-op costs on PostgreSQL. So a node that is the only one keeps its backlog `near`, in a
//! `memory` queue.
//!
//! ```text
//! publish ──► alone, and the table is empty? ── yes ──► near ──┐
//!                        │                               │     ├──► receive: near first
//!                        no                   others come│     │
//!                        └─────────────────► table ◄─────┘  ───┘
//! ```
//!
//! - *Near* begins when nothing is in the table: what waits there was first, and would wait for all that is near.
//! - *When others come*, what is near goes into the table, a batch at a time, and they get their part of it. Until it has
//!   gone, this node takes from it too.
//! - *After a crash* what was near is lost, as with `memory`, and the table is empty. Whoever opens a shard and finds nothing
//!   that waits publishes all that the store knows to wait (`engine`, `load_waiting`).
//!
//! Whether a node is alone is a hint. Two that both believe it, for a moment, have the same messages twice; the second
//! claim of each loses.

use crate::memory::MemoryQueue;
use crate::table::TableQueue;
use crate::{RUNNERS, counts_of};
use campanile_model::action::Runner;
use campanile_model::fault::{Bug, planted};
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::{ExecutionId, Result};
use parking_lot::Mutex;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Messages that go from near into the table at once.
const MOVE_MAX: usize = 1_024;
/// Before the next try, when the table took nothing.
const RETRY: Duration = Duration::from_millis(1_000);

/// A queue that keeps what waits in the process while its node is alone, and in the table while it is not.
pub struct NearQueue {
    shared: Arc<Shared>,
    moving: JoinHandle<()>,
}

struct Shared {
    near: MemoryQueue,
    table: TableQueue,
    state: Mutex<State>,
    moves: Notify,
}

#[derive(Default)]
struct State {
    is_alone: bool,
    /// What is published is kept near. Only while alone.
    is_near: bool,
    /// Writes to the table: how many are under way, and how many have begun. The table is not known to be empty while there are any.
    writing: usize,
    writes: u64,
}

/// A write to the table that is under way.
struct Writing<'q>(&'q Shared);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().writing -= 1;
    }
}

impl NearQueue {
    /// The queue of a node that is not known to be alone, beside this table.
    pub fn new(table: TableQueue) -> Self {
        let (near, state, moves) = (MemoryQueue::new(), Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { near, table, state, moves });
        let moving = tokio::spawn(move_away(Arc::clone(&shared)));
        Self { shared, moving }
    }
}

impl Drop for NearQueue {
    fn drop(&mut self) {
        self.moving.abort();
    }
}

#[async_trait::async_trait]
impl Queue for NearQueue {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.shared.choose().await?;
        let _writing = {
            // Locked while it is put: whoever says that others have come finds it there.
            let mut state = self.shared.state.lock();
            if state.is_near {
                return self.shared.near.put(batch);
            }
            self.shared.write(&mut state)
        };
        self.shared.table.publish(batch).await
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        // Whichever does not answer is dropped, and has taken nothing.
        tokio::select! {
            biased;
            near = self.shared.near.receive(want) => near,
            far = self.shared.table.receive(want) => far,
        }
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.shared.settle(runner, executions.len());
        Ok(())
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        let counts = counts_of(&batch);
        let far = {
            let mut state = self.shared.state.lock();
            if state.is_near {
                self.shared.near.put_in_front(batch);
                None
            } else {
                Some((batch, self.shared.write(&mut state)))
            }
        };
        if let Some((far, _writing)) = far {
            self.shared.table.put_in_front(far).await?;
        }
        RUNNERS.into_iter().zip(counts).for_each(|(runner, count)| self.shared.settle(runner, count));
        Ok(())
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        let near = self.shared.near.fill(runner);
        if self.shared.is_near() {
            return Ok(near);
        }
        let far = self.shared.table.depth(runner).await?;
        Ok(Depth { waiting: near.waiting + far.waiting, taken: near.taken + far.taken })
    }

    fn outlives(&self) -> bool {
        self.shared.table.outlives()
    }

    fn alone(&self, is_alone: bool) {
        let mut state = self.shared.state.lock();
        state.is_alone = is_alone;
        if !is_alone && !planted(Bug("near-to-nobody")) {
            state.is_near = false;
            self.shared.moves.notify_one();
        }
    }

    async fn missing(&self, executions: &[ExecutionId]) -> Result<Vec<ExecutionId>> {
        // What is on its way from near into the table seems lost: it comes twice then, and its second claim loses.
        let mut missing: HashSet<ExecutionId> = executions.iter().copied().collect();
        self.shared.near.strike_out(&mut missing);
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        self.shared.table.missing(&missing.into_iter().collect::<Vec<_>>()).await
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        let near = self.shared.near.pools().await?;
        if self.shared.is_near() {
            return Ok(near);
        }
        let mut depths: BTreeMap<(Arc<str>, Runner), PoolDepth> = BTreeMap::new();
        for depth in self.shared.table.pools().await?.into_iter().chain(near) {
            match depths.entry((Arc::clone(&depth.pool), depth.runner)) {
                Entry::Vacant(place) => {
                    place.insert(depth);
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.waiting += depth.waiting;
                    known.oldest_queued_at = known.oldest_queued_at.into_iter().chain(depth.oldest_queued_at).min();
                }
            }
        }
        Ok(depths.into_values().collect())
    }
}

impl Shared {
    fn is_near(&self) -> bool {
        self.state.lock().is_near
    }

    /// Keeps near what is published from now on, if this node is alone and the table is empty.
    async fn choose(&self) -> Result<()> {
        let writes = {
            let state = self.state.lock();
            if !state.is_alone || state.is_near || state.writing > 0 {
                return Ok(());
            }
            state.writes
        };
        if self.table.is_empty().await? {
            let mut state = self.state.lock();
            state.is_near = state.is_alone && state.writes == writes;
        }
        Ok(())
    }

    /// Begins a write to the table.
    fn write<'q>(&'q self, state: &mut State) -> Writing<'q> {
        state.writing += 1;
        state.writes += 1;
        Writing(self)
    }

    /// That many of the taken ones were decided, or come back. Where they came from is not known any more; those that
    /// were near are counted first.
    fn settle(&self, runner: Runner, count: usize) {
        let near = self.near.settle_own(runner, count);
        self.table.settle(runner, count - near);
    }
}

/// Puts what is near into the table, as soon as others are there.
async fn move_away(shared: Arc<Shared>) {
    loop {
        shared.moves.notified().await;
        let mut is_told = false;
        while !shared.is_near() {
            let batch = shared.near.take_out(MOVE_MAX);
            if batch.is_empty() {
                break;
            }
            tracing::debug!(executions = batch.len(), "others have come: what waits goes into the table");
            if let Err(error) = shared.table.publish(batch.clone()).await {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "cannot put what waits into the table; trying again");
                }
                shared.near.put_in_front(batch);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}
