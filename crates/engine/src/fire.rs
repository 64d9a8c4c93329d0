//! Step 3, fire: due (or soon due) entries become execution rows, one fenced write per batch. Before: load. After: dispatch.
//!
//! One loop per node. It learns which shards it owns, opens them, keeps the planner loaded (near fires first; changed jobs
//! by nudge, and by poll as the truth), and writes what is due. Executions are always written a moment ahead of their
//! instant, so that the write costs no punctuality; when the coming two minutes hold more than the store can write in
//! time, the lead grows up to two minutes.
//!
//! Writes are pipelined and answered in order, so a cursor never passes a fire that is not durable. A failed write is
//! tried again until it succeeds or the shard is lost; its fires are the same rows, so trying twice inserts once. On a
//! crash at any point the cursor lags, and the next start finds the rest.

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::shard::{Due, Move, Planner};
use campanile_model::action::Runner;
use campanile_model::coordinator::Assignment;
use campanile_model::shard::{ShardFence, ShardId};
use campanile_model::store::{
    ChangeSeq, Changes, CursorMove, DueQuery, FireBatch, FireVerdict, Fired, PlannedJob, Waiting, WaitingQuery,
};
use campanile_model::{ExecutionId, JobId, Kind, Result, Timestamp, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};

/// Doorbell and state that other parts share with this loop.
#[derive(Default)]
pub struct Bell {
    /// Rung after job rows were written.
    pub changed: Notify,
    /// Whether the owned shards are open and the near fires loaded.
    pub ready: AtomicBool,
}

/// Writes on their way to the store at the same time; more only wait in its queue.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// How often changed jobs are polled for and cursors flushed.
const POLL_MS: u64 = 1_000;
/// Cursors moved by one write: small, so that it holds nothing up.
const FLUSH_ITEMS_MAX: usize = 2_000;
/// What the store is assumed to write per second; the lead grows when more than half of it is needed.
const WRITE_RATE: usize = 20_000;
/// The horizon is loaded again when less than this is left of it.
const HORIZON_LEFT_MS: u64 = limits::HORIZON_MS / 2;

/// Runs until told to stop; then gives its shards up after flushing its cursors.
pub async fn run(ctx: Context, dispatcher: Dispatcher, bell: Arc<Bell>, mut stop: watch::Receiver<bool>) -> Result<()> {
    loop {
        let assignment = tokio::select! {
            biased;
            () = stopped(&mut stop) => return Ok(()),
            assignment = ctx.coordinator.assignment() => assignment?,
        };
        let Some(assignment) = assignment else { return Ok(()) };
        let mut owner = Owner::open(ctx.clone(), &assignment, dispatcher.clone(), bell.clone()).await?;
        owner.load_waiting().await?;
        owner.run(&mut stop).await?;
        if *stop.borrow() {
            return Ok(());
        }
    }
}

/// Calls the store until it answers. An outage delays work; it must not lose it.
pub async fn persist<T, F: Future<Output = Result<T>>>(ctx: &Context, what: &str, call: impl Fn() -> F) -> Result<T> {
    let mut delay_ms = 20;
    loop {
        match call().await {
            Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown) => {
                ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, what, "the store refused a write; trying again in {delay_ms} ms");
                ctx.clock.sleep_ms(delay_ms).await;
                delay_ms = (delay_ms * 2).min(1_000);
            }
            answer => return answer,
        }
    }
}

/// The owner of some shards, while it owns them.
struct Owner {
    ctx: Context,
    dispatcher: Dispatcher,
    bell: Arc<Bell>,
    shards: Vec<ShardId>,
    fences: Arc<[ShardFence]>,
    planner: Planner,
    changes: ChangeSeq,
    /// Where the running load of the horizon goes on; `None` when it is complete.
    load: Option<Load>,
    reading: Option<BoxFuture<'static, Result<Read>>>,
    writing: FuturesOrdered<BoxFuture<'static, Result<Written>>>,
    flushing: Option<BoxFuture<'static, (Vec<CursorMove>, Result<()>)>>,
    poll_due_ms: u64,
    flush_due_ms: u64,
    /// No read before this: the last one failed.
    read_due_ms: u64,
}

/// A pass over the jobs of the horizon.
#[derive(Copy, Clone)]
struct Load {
    after: Option<(Timestamp, JobId)>,
    before: Timestamp,
}

/// What a read brought.
enum Read {
    Due(Vec<PlannedJob>),
    Changed(Changes),
}

/// What a write did.
struct Written {
    verdict: FireVerdict,
    batch: FireBatch,
    moves: Vec<Move>,
}

impl Owner {
    async fn open(ctx: Context, assignment: &Assignment, dispatcher: Dispatcher, bell: Arc<Bell>) -> Result<Self> {
        let shards = assignment.shards.clone();
        let fences = persist(&ctx, "open shards", || ctx.store.open_shards(&shards, &ctx.node)).await?;
        // Taken before the first load: what is written after this is seen as a change, what was written before is loaded.
        let changes =
            persist(&ctx, "find the newest change", || ctx.store.load_changed(ChangeSeq(u64::MAX), 0)).await?.upto;
        let now = ctx.clock.now();
        let mut planner = Planner::new(now);
        let before = now.saturating_add_ms(limits::HORIZON_MS as i64);
        planner.extend(before);
        Ok(Self {
            shards,
            fences: fences.into(),
            planner,
            changes,
            load: Some(Load { after: None, before }),
            reading: None,
            writing: FuturesOrdered::new(),
            flushing: None,
            poll_due_ms: 0,
            flush_due_ms: 0,
            read_due_ms: 0,
            ctx,
            dispatcher,
            bell,
        })
    }

    /// Hands over everything that waits: pending executions that an earlier owner made, and backoffs.
    async fn load_waiting(&mut self) -> Result<()> {
        let mut after: Option<(Timestamp, ExecutionId)> = None;
        loop {
            let query = WaitingQuery {
                shards: self.shards.clone(),
                before: Timestamp::MAX,
                after,
                limit: limits::LOAD_ROWS_MAX,
            };
            let page = persist(&self.ctx, "load what waits", || self.ctx.store.load_waiting(&query)).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some((last.wake_at, last.dispatch.execution));
            self.dispatcher.send(page);
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        loop {
            let wait_ms = self.step().await?;
            tokio::select! {
                biased;
                () = stopped(stop) => return self.close().await,
                written = self.writing.next(), if !self.writing.is_empty() => {
                    if let Some(written) = written {
                        self.written(written?);
                    }
                }
                read = optional(&mut self.reading), if self.reading.is_some() => {
                    self.reading = None;
                    self.read(read);
                }
                (moves, answer) = optional(&mut self.flushing), if self.flushing.is_some() => {
                    self.flushing = None;
                    self.flushed(moves, answer);
                }
                () = self.bell.changed.notified() => self.poll_due_ms = 0,
                () = self.ctx.clock.sleep_ms(wait_ms) => {}
            }
        }
    }

    /// Starts everything that can start now. Returns how long nothing new is due.
    async fn step(&mut self) -> Result<u64> {
        let (now, mono) = (self.ctx.clock.now(), self.ctx.clock.monotonic_ms());
        let lead_ms = self.lead_ms(now);
        let until = now.saturating_add_ms(lead_ms as i64);
        while self.writing.len() < WRITES_IN_FLIGHT_MAX && queue_has_room(&self.ctx).await {
            let due = self.planner.due(now, until, limits::WRITE_ITEMS_MAX);
            if due.moves.is_empty() {
                break;
            }
            self.write(due, now);
        }
        if self.reading.is_none() && mono >= self.read_due_ms {
            self.reading = self.next_read(now, mono);
        }
        if self.flushing.is_none() && mono >= self.flush_due_ms {
            self.flush(mono);
        }
        self.ctx.metrics.planned_jobs.set(self.planner.len() as u64);
        self.ctx.metrics.cursors_dirty.set(self.planner.dirty() as u64);
        let timer = self.planner.next_at().map_or(POLL_MS, |at| at.ms_since(until));
        let poll = self.poll_due_ms.max(mono + 1) - mono;
        Ok(if self.writing.len() < WRITES_IN_FLIGHT_MAX { timer.min(poll).clamp(1, POLL_MS) } else { POLL_MS })
    }

    /// How far ahead executions are made durable: a moment always, more when a stampede is coming.
    fn lead_ms(&self, now: Timestamp) -> u64 {
        let mut lead_ms = limits::LEAD_MS_MAX;
        while lead_ms > limits::LEAD_MS_MIN {
            let fires = self.planner.count_until(now.saturating_add_ms(lead_ms as i64));
            if fires > WRITE_RATE / 2 * lead_ms as usize / 1_000 {
                return lead_ms;
            }
            lead_ms /= 2;
        }
        limits::LEAD_MS_MIN
    }

    fn write(&mut self, due: Due, now: Timestamp) {
        let ctx = self.ctx.clone();
        let fences = self.fences.clone();
        let write = async move {
            let batch = FireBatch { fences, fires: due.fires, skips: due.skips, now, idempotency: None };
            let verdict = persist(&ctx, "fire", || ctx.store.fire(batch.clone())).await?;
            Ok(Written { verdict, batch, moves: due.moves })
        };
        self.writing.push_back(write.boxed());
    }

    fn written(&mut self, written: Written) {
        let metrics = &self.ctx.metrics;
        let verdicts = match written.verdict {
            FireVerdict::Fired(verdicts) => verdicts,
            FireVerdict::EpochLost(shards) => {
                tracing::error!(shards = shards.len(), "another node owns these shards now; their jobs are given up");
                metrics.epoch_refused.add(written.batch.fires.len() as u64);
                self.planner.forget(&shards);
                // The batch is all or nothing: what belongs to shards that are still owned is fired again.
                self.planner.undo(&written.moves);
                return;
            }
            // Scheduled fires carry no key.
            FireVerdict::Replayed(_) | FireVerdict::KeyReused => return,
        };
        let fired = verdicts.len();
        let fires = written.batch.fires.into_iter().zip(verdicts);
        let new: Vec<Waiting> = fires
            .filter(|(_, verdict)| *verdict == Fired::New)
            .map(|(fire, _)| Waiting { wake_at: fire.wake_at, dispatch: fire.dispatch })
            .collect();
        metrics.fired.add(new.len() as u64);
        metrics.fires_repeated.add((fired - new.len()) as u64);
        metrics.skips.add(written.batch.skips.len() as u64);
        self.dispatcher.send(new);
        self.planner.committed(&written.moves);
    }

    /// The next thing to read: the rest of the horizon, changed jobs, or a further piece of the horizon.
    fn next_read(&mut self, now: Timestamp, mono: u64) -> Option<BoxFuture<'static, Result<Read>>> {
        let store = self.ctx.store.clone();
        if mono >= self.poll_due_ms {
            self.poll_due_ms = mono + POLL_MS;
            let since = self.changes;
            return Some(
                async move { store.load_changed(since, limits::LOAD_ROWS_MAX).await.map(Read::Changed) }.boxed(),
            );
        }
        if self.load.is_none() && self.planner.horizon().ms_since(now) < HORIZON_LEFT_MS {
            let before = now.saturating_add_ms(limits::HORIZON_MS as i64);
            let after = Some((self.planner.horizon(), JobId::from_bytes([0xff; 16])));
            self.planner.extend(before);
            self.load = Some(Load { after, before });
        }
        let load = self.load?;
        let (after, before) = (load.after, load.before.saturating_add_ms(1));
        let query = DueQuery { shards: self.shards.clone(), before, after, limit: limits::LOAD_ROWS_MAX };
        Some(async move { store.load_due(&query).await.map(Read::Due) }.boxed())
    }

    fn read(&mut self, read: Result<Read>) {
        let jobs = match read {
            Ok(Read::Due(jobs)) => {
                let last = jobs.last().and_then(|job| Some((job.cursor.next_fire_at?, job.id)));
                self.load = match (last, self.load) {
                    (Some(last), Some(load)) => Some(Load { after: Some(last), ..load }),
                    _ => None,
                };
                self.bell.ready.store(true, Ordering::Release);
                jobs
            }
            Ok(Read::Changed(changes)) => {
                if changes.jobs.len() == limits::LOAD_ROWS_MAX {
                    self.poll_due_ms = 0;
                }
                self.changes = self.changes.max(changes.upto);
                changes.jobs
            }
            Err(error) => {
                self.ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, "cannot load jobs; trying again");
                self.read_due_ms = self.ctx.clock.monotonic_ms() + POLL_MS;
                return;
            }
        };
        for job in self.planner.load(jobs) {
            tracing::error!(%job, "the stored schedule of this job cannot be read; it does not fire");
        }
    }

    /// Moves the store's cursors after what is durable. Never urgent: a lagging cursor only costs the next start time.
    fn flush(&mut self, mono: u64) {
        let many = self.planner.dirty() >= FLUSH_ITEMS_MAX;
        let moves = self.planner.take_dirty(self.ctx.clock.now(), FLUSH_ITEMS_MAX);
        let wait_ms = match (many, self.writing.is_empty() && !moves.is_empty()) {
            (true, true) => 0,
            // Fires go first; and what is durable ahead of its instant waits for that.
            (true, false) => POLL_MS / 10,
            (false, _) => POLL_MS,
        };
        self.flush_due_ms = mono + wait_ms;
        if !moves.is_empty() {
            let (store, fences) = (self.ctx.store.clone(), self.fences.clone());
            self.flushing = Some(
                async move {
                    let answer = store.advance(fences, moves.clone()).await;
                    (moves, answer)
                }
                .boxed(),
            );
        }
    }

    fn flushed(&mut self, moves: Vec<CursorMove>, answer: Result<()>) {
        match answer {
            Ok(()) => self.planner.flushed(&moves),
            Err(error) => {
                self.ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, "cannot move cursors; trying again");
                self.planner.unflushed(&moves);
                self.flush_due_ms = self.ctx.clock.monotonic_ms() + POLL_MS;
            }
        }
    }

    /// Waits for the writes in flight and flushes all cursors, so that the next start has nothing to find.
    async fn close(&mut self) -> Result<()> {
        while let Some(written) = self.writing.next().await {
            self.written(written?);
        }
        if let Some(flushing) = self.flushing.take() {
            let (moves, answer) = flushing.await;
            self.flushed(moves, answer);
        }
        loop {
            let moves = self.planner.take_dirty(self.ctx.clock.now(), FLUSH_ITEMS_MAX);
            if moves.is_empty() {
                return Ok(());
            }
            self.ctx.store.advance(self.fences.clone(), moves).await?;
        }
    }
}

/// Waits until the engine is told to stop.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop too.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Back-pressure: fires stay in the wheel while the queue is full.
async fn queue_has_room(ctx: &Context) -> bool {
    let depth = ctx.queue.depth(Runner::Node).await;
    depth.is_ok_and(|depth| depth.waiting < limits::QUEUE_ITEMS_MAX)
}

/// The future in `slot`, or one that never ends.
async fn optional<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
