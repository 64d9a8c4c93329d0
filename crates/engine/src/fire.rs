//! Step 4, fire: due (or soon due) entries become execution rows, one fenced write per batch. Before: load. After: flush, and
//! dispatch.
//!
//! Executions are always written a moment ahead of their instant, so that the write costs no punctuality; when the coming two
//! minutes hold more than the store can write in time, the lead grows up to two minutes.
//!
//! Writes are pipelined and answered in order, so a cursor never passes a fire that is not durable. A failed write is
//! tried again until it succeeds or the shard is lost; its fires are the same rows, so trying twice inserts once. On a
//! crash at any point the cursor lags, and the next start finds the rest.

use crate::calls::persist_noting;
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::owned::Owned;
use crate::planner::{Due, Move, Planner};
use campanile_model::action::Runner;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::{ShardFence, ShardId};
use campanile_model::store::{self, FireBatch, FireVerdict, Verdicts, Waiting};
use campanile_model::{Kind, Result, Timestamp, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};

/// Writes on their way to the store at the same time; more only wait in its queue.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// What the store is assumed to write per second; the lead grows when more than half of it is needed.
const WRITE_RATE: usize = 20_000;

/// The writes of fires that are on their way.
#[derive(Default)]
pub(crate) struct Fire {
    writing: FuturesOrdered<BoxFuture<'static, Result<Fired>>>,
}

/// What a write did.
pub(crate) struct Fired {
    verdict: FireVerdict,
    batch: FireBatch,
    moves: Vec<Move>,
    /// Whether an earlier try may have happened: what exists may be its work.
    unknown: bool,
}

impl Fire {
    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.writing.is_empty()
    }

    /// Whether no more may be on its way.
    pub fn is_full(&self) -> bool {
        self.writing.len() >= WRITES_IN_FLIGHT_MAX
    }

    /// How far ahead executions are made durable: a moment always, more when a stampede is coming.
    pub fn lead_ms(&self, planner: &Planner, now: Timestamp) -> u64 {
        let mut lead_ms = limits::LEAD_MS_MAX;
        while lead_ms > limits::LEAD_MS_MIN {
            let fires = planner.count_until(now.saturating_add_ms(lead_ms as i64));
            if fires > WRITE_RATE / 2 * lead_ms as usize / 1_000 {
                return lead_ms;
            }
            lead_ms /= 2;
        }
        limits::LEAD_MS_MIN
    }

    /// Writes what is due. Says whether the queue has no room for more.
    pub async fn step(&mut self, ctx: &Context, owned: &mut Owned, now: Timestamp, until: Timestamp) -> bool {
        // The queue is asked only where there is something for it: a node with nothing to do asks nobody.
        while !self.is_full() && owned.planner.next_at().is_some_and(|at| at <= until) {
            if !queue_has_room(ctx).await {
                return true;
            }
            let due = owned.planner.due(now, until, limits::WRITE_ITEMS_MAX);
            if due.moves.is_empty() {
                break;
            }
            self.write(ctx, owned, due, now);
        }
        false
    }

    fn write(&mut self, ctx: &Context, owned: &mut Owned, due: Due, now: Timestamp) {
        let (ctx, fences) = (ctx.clone(), owned.fences.clone());
        if planted(Bug("cursor_before_commit")) {
            owned.planner.committed(&due.moves);
        }
        let write = async move {
            let batch = FireBatch { fences, fires: due.fires, skips: due.skips, now, idempotency: None };
            let fire = || async {
                match ctx.store.fire(batch.clone()).await {
                    Err(error) if error.kind() == Kind::OutcomeUnknown && planted(Bug("unknown_fire_is_done")) => {
                        Ok(FireVerdict::Fired(Verdicts::of(vec![store::Fired::New; batch.fires.len()])))
                    }
                    answer => answer,
                }
            };
            ctx.metrics.fires.count(batch.fires.len());
            let (verdict, unknown) = persist_noting(&ctx, "fire", fire).await?;
            Ok(Fired { verdict, batch, moves: due.moves, unknown })
        };
        self.writing.push_back(write.boxed());
    }

    /// Waits for the earliest of the writes.
    pub async fn next(&mut self) -> Result<Fired> {
        match self.writing.next().await {
            Some(fired) => fired,
            None => std::future::pending().await,
        }
    }
}

impl Fired {
    /// Dispatches what is durable, and moves the cursors after it. Returns shards that somebody else has opened.
    pub fn take(self, ctx: &Context, owned: &mut Owned, dispatcher: &Dispatcher) -> Vec<ShardId> {
        let metrics = &ctx.metrics;
        let Verdicts { verdicts, ready } = match self.verdict {
            FireVerdict::Fired(fired) => fired,
            FireVerdict::EpochLost(shards) => {
                metrics.epoch_refused.add(self.batch.fires.len() as u64);
                // The batch is all or nothing: what belongs to shards that are still owned is fired again.
                if !planted(Bug("refused_batch_not_undone")) {
                    owned.planner.undo(&self.moves);
                }
                return lost(&shards, &self.batch.fences, &owned.fences);
            }
            // Scheduled fires carry no key.
            FireVerdict::Replayed(_) | FireVerdict::KeyReused => return Vec::new(),
        };
        let fired = verdicts.len();
        let fires = self.batch.fires.into_iter().zip(verdicts);
        // What an unanswered try has made is dispatched by nobody else; what is dispatched twice loses its second claim.
        let new: Vec<Waiting> = fires
            .filter(|(_, verdict)| *verdict == store::Fired::New || self.unknown)
            .map(|(fire, _)| Waiting { wake_at: fire.wake_at, dispatch: fire.dispatch })
            .collect();
        metrics.fired.add(new.len() as u64);
        metrics.fires_repeated.add((fired - new.len()) as u64);
        metrics.skips.add(self.batch.skips.len() as u64);
        dispatcher.send(new);
        dispatcher.send(ready);
        owned.planner.committed(&self.moves);
        Vec::new()
    }
}

/// Back-pressure: fires stay in the wheel while the queue is full.
async fn queue_has_room(ctx: &Context) -> bool {
    let depth = ctx.queue.depth(Runner::Node).await;
    depth.is_ok_and(|depth| depth.waiting < limits::QUEUE_ITEMS_MAX)
}

/// Of the shards whose epoch refused a write, those that are lost: a write from before an outage may be refused by the epoch under
/// which this node itself has opened its shards again, and those are still its own.
fn lost(refused: &[ShardId], written: &[ShardFence], held: &[ShardFence]) -> Vec<ShardId> {
    let fence = |fences: &[ShardFence], shard| fences.iter().find(|fence| fence.shard == shard).copied();
    refused.iter().copied().filter(|&shard| fence(written, shard) == fence(held, shard)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::shard::Epoch;

    #[test]
    fn shards_that_were_opened_again_are_not_lost_by_an_old_write() {
        let fence = |shard, epoch| ShardFence { shard: ShardId(shard), epoch: Epoch(epoch) };
        let written = [fence(1, 7), fence(2, 7), fence(3, 7)];
        // The first was opened again since, the second is held as it was, the third was given up.
        let held = [fence(1, 8), fence(2, 7)];
        let refused = [ShardId(1), ShardId(2), ShardId(3)];
        assert_eq!(lost(&refused, &written, &held), [ShardId(2)]);
    }
}
