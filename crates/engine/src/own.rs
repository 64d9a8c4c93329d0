//! Step 2, own: which shards this node fires for. Before: accept. After: load.
//!
//! One loop per node. It learns which shards it should own, opens them, and gives up what goes to others; between these it does
//! the steps load, fire and flush for what it holds. The coordinator only says who should own what. An epoch in the store says
//! who does: whoever opens a shard takes a new one, and a write under an older one is refused.

use crate::bells::Bells;
use crate::calls::{self, optional, persist, stopped};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::fire::{Fire, Fired};
use crate::flush::Flush;
use crate::load::{self, Load};
use crate::owned::Owned;
use crate::planner::Planner;
use campanile_model::Result;
use campanile_model::coordinator::Assignment;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::{self, ShardFence, ShardId};
use campanile_model::store::{ChangeSeq, Store};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// No wait is longer.
const WAIT_MS_MAX: u64 = 1_000;
/// When shards that could not be opened, or were lost at once, are tried again.
const OPEN_AGAIN_MS: u64 = 500;
/// When shards are looked at again that somebody else has opened meanwhile: its last opening was on its way.
const LOOK_AGAIN_MS: u64 = 50;
/// How long fires wait where the queue is full.
const FULL_MS: u64 = 50;
/// How long writes in flight are waited for before shards are given up.
const GIVE_UP_MS: u64 = 500;
/// How long cursors are flushed at a stop, where nobody waits for the shards and where somebody does.
const CLOSE_MS: u64 = 10_000;
const HAND_OVER_MS: u64 = 100;

/// Runs until told to stop; then gives its shards up after flushing its cursors.
pub async fn run(
    ctx: Context,
    dispatcher: Dispatcher,
    bells: Arc<Bells>,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    // Taken before the first load: what is written after this is seen as a change, what was written before is loaded.
    let newest = || ctx.store.load_changed(ChangeSeq(u64::MAX), 0);
    let seen = persist(&ctx, "find the newest change", newest).await?.upto;
    let ended = Owner::new(ctx.clone(), seen, dispatcher, bells).run(&mut stop).await;
    ctx.duty.set_shards([]);
    ended
}

/// The owner of some shards.
struct Owner {
    ctx: Context,
    dispatcher: Dispatcher,
    bells: Arc<Bells>,
    /// What the coordinator wants this node to own.
    wanted: Vec<ShardId>,
    owned: Owned,
    load: Load,
    fire: Fire,
    flush: Flush,
    opening: Option<BoxFuture<'static, Result<Opening>>>,
    /// No opening before this: the last one failed, or its shards were lost at once.
    open_due_ms: u64,
}

/// What a step of opening shards brought.
///
/// A node looks at the epochs, asks itself whether it should still own the shards, and opens those that are as it saw them. An
/// opening that is on its way while its shards go to another node takes nothing from that one.
enum Opening {
    /// The epochs that are current; and where the changes of jobs are, if no shard was open.
    Saw(Vec<ShardFence>, Option<ChangeSeq>),
    /// What was taken, of so many.
    Took(Vec<ShardFence>, usize),
}

impl Owner {
    fn new(ctx: Context, seen: ChangeSeq, dispatcher: Dispatcher, bells: Arc<Bells>) -> Self {
        Self {
            wanted: Vec::new(),
            owned: Owned { fences: Arc::new([]), planner: Planner::new(ctx.clock.now(), seen) },
            load: Load::default(),
            fire: Fire::default(),
            flush: Flush::default(),
            opening: None,
            open_due_ms: 0,
            ctx,
            dispatcher,
            bells,
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let mut assignment = ask(&self.ctx);
        loop {
            let wait_ms = self.step().await;
            tokio::select! {
                biased;
                () = stopped(stop) => return self.close().await,
                told = &mut assignment => {
                    let Some(told) = told? else { return self.close().await };
                    self.assigned(told).await?;
                    // Only now: what is no longer listed must be given up before the next question.
                    assignment = ask(&self.ctx);
                }
                opening = optional(&mut self.opening) => {
                    self.opening = None;
                    self.opening(opening);
                }
                fired = self.fire.next() => self.fired(fired?),
                read = self.load.next() => self.load.take(&self.ctx, &self.bells, &mut self.owned, read),
                flushed = self.flush.next() => self.flush.done(&self.ctx, &mut self.owned.planner, flushed),
                () = self.bells.changed.notified() => self.load.look_for_changes(),
                () = self.ctx.store.wait_for_remote_change() => self.load.look_for_changes(),
                () = self.ctx.clock.sleep_ms(wait_ms) => {}
            }
        }
    }

    /// Takes a new assignment in: what is no longer listed is given up now, what is new is opened by `step`.
    async fn assigned(&mut self, told: Assignment) -> Result<()> {
        let before = self.ctx.duty.live_nodes();
        if before.iter().any(|node| !told.live_nodes.contains(node)) {
            self.take_over();
        }
        self.ctx.queue.alone(*told.live_nodes == [&*self.ctx.node]);
        self.ctx.duty.set_live_nodes(told.live_nodes);
        self.wanted = told.shards;
        let lost: Vec<ShardId> = self.owned.shards().filter(|shard| !self.wanted.contains(shard)).collect();
        if !lost.is_empty() {
            tracing::info!(shards = lost.len(), "giving shards up");
            self.await_writes(GIVE_UP_MS).await?;
            self.give_up(&lost);
        }
        self.open_due_ms = 0;
        if self.wanted.is_empty() {
            self.bells.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// A node has gone, and with it what it kept in mind of our shards: the backoffs of attempts that it ran.
    fn take_over(&self) {
        let shards: Vec<ShardId> = self.owned.shards().collect();
        if !shards.is_empty() {
            let now = self.ctx.clock.now();
            tokio::spawn(load::load_waiting(self.ctx.clone(), self.dispatcher.clone(), shards, now));
        }
    }

    /// Whether there are shards that should be open here and are not: what is open is wanted.
    fn is_missing_some(&self) -> bool {
        self.owned.fences.len() < self.wanted.len()
    }

    /// Shards that should be open here and are not.
    fn missing(&self) -> Vec<ShardId> {
        let open: HashSet<u16> = self.owned.shards().map(|shard| shard.0).collect();
        self.wanted.iter().copied().filter(|shard| !open.contains(&shard.0)).collect()
    }

    /// Owns these shards no longer.
    fn give_up(&mut self, shards: &[ShardId]) {
        self.owned.give_up(shards);
        self.load.give_up(shards);
        self.ctx.duty.set_shards(self.owned.shards());
    }

    /// A step of opening shards is done.
    fn opening(&mut self, opening: Result<Opening>) {
        let again_ms = match opening {
            Ok(Opening::Saw(current, newest)) => {
                match (newest, self.owned.fences.is_empty()) {
                    (Some(newest), true) => self.owned.planner.see_only(newest),
                    // All shards were lost while it looked.
                    (None, true) => {
                        self.opening = Some(look(self.ctx.store.clone(), true).boxed());
                        return;
                    }
                    (_, false) => {}
                }
                let (store, node) = (self.ctx.store.clone(), self.ctx.node.clone());
                let seen = shard::seen(&self.missing(), &current);
                let open = async move { Ok(Opening::Took(store.open_shards(&seen, &node).await?, seen.len())) };
                self.opening = Some(open.boxed());
                return;
            }
            Ok(Opening::Took(fences, asked)) => {
                let is_refused = fences.len() < asked;
                self.opened(fences);
                if is_refused { LOOK_AGAIN_MS } else { return }
            }
            Err(error) => {
                calls::failed(&self.ctx, "open shards", &error);
                OPEN_AGAIN_MS
            }
        };
        self.open_due_ms = self.ctx.clock.monotonic_ms() + again_ms;
    }

    /// Shards are open: their near fires are loaded first, and what waits for its instant is dispatched.
    fn opened(&mut self, mut fences: Vec<ShardFence>) {
        fences.retain(|fence| self.wanted.contains(&fence.shard));
        let shards: Vec<ShardId> = fences.iter().map(|fence| fence.shard).collect();
        if shards.is_empty() {
            return;
        }
        tracing::info!(shards = shards.len(), "opened shards");
        self.owned.add(fences);
        self.ctx.duty.set_shards(self.owned.shards());
        let now = self.ctx.clock.now();
        self.load.begin(&mut self.owned.planner, shards.clone(), now);
        if planted(Bug("work-of-the-dead-scheduler")) {
            // airflow#13542: what an earlier owner had queued is nobody's.
            return;
        }
        tokio::spawn(load::load_waiting(self.ctx.clone(), self.dispatcher.clone(), shards, now));
    }

    /// Starts everything that can start now. Returns how long nothing new is due.
    async fn step(&mut self) -> u64 {
        let (now, mono) = (self.ctx.clock.now(), self.ctx.clock.monotonic_ms());
        let until = now.saturating_add_ms(self.fire.lead_ms(&self.owned.planner, now) as i64);
        let has_no_room = self.fire.step(&self.ctx, &mut self.owned, now, until).await;
        if self.opening.is_none() && mono >= self.open_due_ms && self.is_missing_some() {
            self.opening = Some(look(self.ctx.store.clone(), self.owned.fences.is_empty()).boxed());
        }
        self.load.step(&self.ctx, &mut self.owned, now, mono);
        self.flush.step(&self.ctx, &mut self.owned, self.fire.is_idle(), mono);
        let planner = &self.owned.planner;
        self.ctx.metrics.planned_jobs.set(planner.len() as u64);
        self.ctx.metrics.cursors_dirty.set(planner.dirty() as u64);
        self.ctx.coordinator.report(planner.next_at().map_or(0, |at| now.ms_since(at)));
        if has_no_room {
            return FULL_MS;
        }
        if self.fire.is_full() {
            return WAIT_MS_MAX;
        }
        let timer = planner.next_at().map_or(WAIT_MS_MAX, |at| at.ms_since(until));
        let open = if self.opening.is_none() && self.is_missing_some() { self.open_due_ms } else { u64::MAX };
        timer.min(self.load.wait_ms(&self.owned, mono)).min(open.saturating_sub(mono)).clamp(1, WAIT_MS_MAX)
    }

    /// A write of fires is answered.
    fn fired(&mut self, fired: Fired) {
        let lost = fired.take(&self.ctx, &mut self.owned, &self.dispatcher);
        if !lost.is_empty() {
            tracing::error!(shards = lost.len(), "another node owns these shards now; their jobs are given up");
            self.give_up(&lost);
            self.open_due_ms = self.ctx.clock.monotonic_ms() + OPEN_AGAIN_MS;
        }
    }

    /// Waits for the writes in flight, but not for ever: one that comes later is refused by its epoch.
    async fn await_writes(&mut self, at_most_ms: u64) -> Result<()> {
        let deadline = self.ctx.clock.monotonic_ms() + at_most_ms;
        while !self.fire.is_idle() {
            let left_ms = deadline.saturating_sub(self.ctx.clock.monotonic_ms());
            let fired = tokio::select! {
                biased;
                fired = self.fire.next() => fired?,
                () = self.ctx.clock.sleep_ms(left_ms) => return Ok(()),
            };
            self.fired(fired);
        }
        Ok(())
    }

    /// Waits for the writes in flight and flushes cursors, so that the next owner has little to find. Where others wait for
    /// the shards, not for long: what exists already is found by its id.
    async fn close(&mut self) -> Result<()> {
        let alone = self.ctx.duty.live_nodes().len() <= 1;
        let deadline = self.ctx.clock.monotonic_ms() + if alone { CLOSE_MS } else { HAND_OVER_MS };
        self.await_writes(if alone { CLOSE_MS } else { GIVE_UP_MS }).await?;
        self.flush.close(&self.ctx, &mut self.owned, deadline).await;
        Ok(())
    }
}

fn ask(ctx: &Context) -> BoxFuture<'static, Result<Option<Assignment>>> {
    let coordinator = ctx.coordinator.clone();
    async move { coordinator.assignment().await }.boxed()
}

/// Looks at the epochs. Who has no shard looks where the changes of jobs are as well: it has not followed them, and a database that
/// has failed over may count anew.
async fn look(store: Arc<dyn Store>, has_none: bool) -> Result<Opening> {
    let newest = match has_none {
        true => Some(store.load_changed(ChangeSeq(u64::MAX), 0).await?.upto),
        false => None,
    };
    Ok(Opening::Saw(store.load_shards().await?, newest))
}
