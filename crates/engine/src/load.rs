//! Step 3, load: the jobs of the owned shards whose next fire is near come into memory. Before: own. After: fire.
//!
//! Near fires first, page by page; then changed jobs, by nudge, and by poll as the truth; then the next piece of the horizon. One
//! read at a time, so that what is taken in later was read later. And once, when shards are opened: what an earlier owner has
//! made durable and nobody has dispatched.

mod passes;

use self::passes::{PassNumber, Passes};
use crate::bells::Bells;
use crate::calls::{self, optional, persist};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::owned::Owned;
use crate::planner::Planner;
use campanile_model::action::Runner;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::ShardId;
use campanile_model::store::{ChangeSeq, Changes, PlannedJob, WaitingQuery};
use campanile_model::{Error, ExecutionId, Kind, Result, Timestamp, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::atomic::Ordering;

/// How often changed jobs are polled for, beside when a bell rings.
const CHANGES_MS: u64 = 10_000;
/// When what could not be read is tried again.
const READ_AGAIN_MS: u64 = 1_000;
/// The horizon is loaded again when less than this is left of it.
const HORIZON_LEFT_MS: u64 = limits::HORIZON_MS / 2;
/// How far the clocks of two nodes are apart, at most: one that is off by more gives its shards up.
const CLOCKS_MS: i64 = 1_000;
/// What has been due for longer than this when shards are opened is in the queue, where that outlives its publisher.
const OVERDUE_MS: i64 = 15_000;

/// What is read, and when.
#[derive(Default)]
pub(crate) struct Load {
    /// Passes over the jobs of the horizon.
    passes: Passes,
    reading: Option<BoxFuture<'static, Result<Read>>>,
    changes_due_ms: u64,
    /// No read before this: the last one failed.
    read_due_ms: u64,
}

/// What a read brought.
pub(crate) enum Read {
    Due(PassNumber, Vec<PlannedJob>),
    /// Since this change.
    Changed(ChangeSeq, Changes),
}

impl Load {
    /// Shards were opened: their jobs are read before all else.
    pub fn begin(&mut self, planner: &mut Planner, shards: Vec<ShardId>, now: Timestamp) {
        let before = now.saturating_add_ms(limits::HORIZON_MS as i64).max(planner.horizon());
        planner.extend(before);
        self.passes.begin(shards, before);
    }

    /// These shards are not ours any more.
    pub fn give_up(&mut self, shards: &[ShardId]) {
        self.passes.give_up(shards);
    }

    /// Job rows were written.
    pub fn look_for_changes(&mut self) {
        self.changes_due_ms = 0;
    }

    /// How long there is nothing new to read.
    pub fn wait_ms(&self, owned: &Owned, mono: u64) -> u64 {
        match self.reading.is_some() || owned.fences.is_empty() {
            true => u64::MAX,
            false => self.changes_due_ms.max(self.read_due_ms).max(mono + 1) - mono,
        }
    }

    /// Begins to read, if there is anything to read and nothing is being read.
    pub fn step(&mut self, ctx: &Context, owned: &mut Owned, now: Timestamp, mono: u64) {
        if self.reading.is_none() && mono >= self.read_due_ms {
            self.reading = self.next_read(ctx, owned, now, mono);
        }
    }

    /// Waits for the read that is on its way.
    pub async fn next(&mut self) -> Result<Read> {
        let read = optional(&mut self.reading).await;
        self.reading = None;
        read
    }

    /// Takes in what was read.
    pub fn take(&mut self, ctx: &Context, bells: &Bells, owned: &mut Owned, read: Result<Read>) {
        let mut jobs = match read {
            Ok(Read::Due(pass, jobs)) => {
                bells.ready.store(true, Ordering::Release);
                let jobs = self.passes.answered(pass, jobs);
                self.read_ahead(ctx, owned);
                jobs
            }
            // All shards were lost meanwhile, and others opened: it looks again from where it was told then.
            Ok(Read::Changed(since, _)) if since != owned.planner.seen() => {
                self.look_for_changes();
                return;
            }
            Ok(Read::Changed(_, changes)) => {
                if changes.count == limits::LOAD_ROWS_MAX {
                    self.changes_due_ms = 0;
                }
                owned.planner.see(changes.upto);
                changes.jobs
            }
            Err(error) => {
                calls::failed(ctx, "load jobs", &error);
                self.read_due_ms = ctx.clock.monotonic_ms() + READ_AGAIN_MS;
                return;
            }
        };
        owned.retain_ours(&mut jobs);
        for job in owned.planner.load(jobs) {
            tracing::error!(%job, "the stored schedule of this job cannot be read; it does not fire");
        }
    }

    /// The next thing to read: the rest of the horizon, changed jobs, or a further piece of the horizon.
    fn next_read(
        &mut self,
        ctx: &Context,
        owned: &mut Owned,
        now: Timestamp,
        mono: u64,
    ) -> Option<BoxFuture<'static, Result<Read>>> {
        let store = ctx.store.clone();
        if owned.fences.is_empty() {
            return None;
        }
        if mono >= self.changes_due_ms {
            self.changes_due_ms = mono + CHANGES_MS;
            let since = owned.planner.seen();
            let changed = async move {
                let changes = store.load_changed(since, limits::LOAD_ROWS_MAX).await?;
                Ok(Read::Changed(since, changes))
            };
            return Some(changed.boxed());
        }
        if self.passes.is_empty() && owned.planner.horizon().ms_since(now) < HORIZON_LEFT_MS {
            let before = now.saturating_add_ms(limits::HORIZON_MS as i64);
            self.passes.go_on(owned.shards().collect(), owned.planner.horizon(), before);
            owned.planner.extend(before);
        }
        let (pass, query) = self.passes.ask()?;
        Some(async move { store.load_due(&query).await.map(|jobs| Read::Due(pass, jobs)) }.boxed())
    }

    /// Begins the next read while the answer to the last one is taken in: the store and the wheel work side by side.
    fn read_ahead(&mut self, ctx: &Context, owned: &mut Owned) {
        let (now, mono) = (ctx.clock.now(), ctx.clock.monotonic_ms());
        if let Some(next) = self.next_read(ctx, owned, now, mono) {
            let reading = tokio::spawn(next);
            let read = async { reading.await.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a read panicked"))) };
            self.reading = Some(read.boxed());
        }
    }
}

/// Hands over everything of these shards that waits: pending executions that an earlier owner made, and backoffs. What has
/// been overdue for long is left to the reaper, if the queue keeps what that owner published: most of it is there. Unless nothing
/// is there at all: then there was little, or it was kept in mind by a node that was alone, or the database crashed, which the
/// table does not outlive. What is fired from now on is
/// dispatched by whoever fires it.
pub(crate) async fn load_waiting(ctx: Context, dispatcher: Dispatcher, shards: Vec<ShardId>, opened_at: Timestamp) {
    let recent = opened_at.saturating_add_ms(-OVERDUE_MS);
    let is_empty = match is_empty(&ctx).await {
        Ok(is_empty) => is_empty && !planted(Bug("left-to-the-reaper")),
        Err(error) => {
            tracing::error!(%error, "cannot see what waits in the queue; the reaper finds what is overdue");
            false
        }
    };
    let is_kept = ctx.queue.outlives() && !is_empty;
    let mut after = is_kept.then_some((recent, ExecutionId::from_bytes([0; 16])));
    loop {
        let (shards, limit) = (shards.clone(), limits::LOAD_ROWS_MAX);
        // The clock of whoever fired them may have been a little ahead.
        let fired_until = opened_at.saturating_add_ms(CLOCKS_MS);
        let query = WaitingQuery { shards, before: Timestamp::MAX, fired_until, after, limit };
        let page = match persist(&ctx, "load what waits", || ctx.store.load_waiting(&query)).await {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "cannot load what waits; the reaper finds what is overdue");
                return;
            }
        };
        let Some(last) = page.last() else { return };
        after = Some((last.wake_at, last.dispatch.execution));
        dispatcher.send(page);
    }
}

/// Whether nothing waits in the queue.
async fn is_empty(ctx: &Context) -> Result<bool> {
    for runner in [Runner::Node, Runner::Worker] {
        if persist(ctx, "see what waits in the queue", || ctx.queue.depth(runner)).await?.waiting > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::tests::t;
    use campanile_model::shard::{Epoch, ShardFence};
    use std::sync::Arc;

    #[test]
    fn a_node_without_shards_has_nothing_to_wait_for() {
        let mut owned = Owned { fences: Arc::new([]), planner: Planner::new(t(0), ChangeSeq(1)) };
        let load = Load { changes_due_ms: 0, read_due_ms: 70, ..Load::default() };
        assert_eq!(load.wait_ms(&owned, 50), u64::MAX);
        owned.add(vec![ShardFence { shard: ShardId(1), epoch: Epoch(1) }]);
        assert_eq!(load.wait_ms(&owned, 50), 20, "the last read failed");
        assert_eq!(load.wait_ms(&owned, 80), 1);
    }
}
