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

mod loads;

use self::loads::{Loads, PassNumber};
use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::pulse::Bells;
use crate::shard::{Due, Move, Planner};
use campanile_model::action::Runner;
use campanile_model::coordinator::Assignment;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::{self, ShardFence, ShardId, shard_of};
use campanile_model::store::{
    ChangeSeq, Changes, CursorMove, FireBatch, FireVerdict, Fired, PlannedJob, Verdicts, Waiting, WaitingQuery,
};
use campanile_model::{Error, ExecutionId, Kind, Result, Timestamp, limits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// Writes on their way to the store at the same time; more only wait in its queue.
const WRITES_IN_FLIGHT_MAX: usize = 4;
/// How often cursors are flushed; and no wait is longer.
const POLL_MS: u64 = 1_000;
/// How often changed jobs are polled for, beside when a bell rings.
const CHANGES_MS: u64 = 10_000;
/// When shards that could not be opened, or were lost at once, are tried again.
const OPEN_AGAIN_MS: u64 = 500;
/// When shards are looked at again that somebody else has opened meanwhile: its last opening was on its way.
const LOOK_AGAIN_MS: u64 = 50;
/// How long fires wait where the queue is full.
const FULL_MS: u64 = 50;
/// How far the clocks of two nodes are apart, at most: one that is off by more gives its shards up.
const CLOCKS_MS: i64 = 1_000;
/// How long writes in flight are waited for before shards are given up.
const GIVE_UP_MS: u64 = 500;
/// How long cursors are flushed at a stop, where nobody waits for the shards and where somebody does.
const CLOSE_MS: u64 = 10_000;
const HAND_OVER_MS: u64 = 100;
/// What has been due for longer than this when shards are opened is in the queue, where that outlives its publisher.
const OVERDUE_MS: i64 = 15_000;
/// Cursors moved by one write: small, so that it holds nothing up.
const FLUSH_ITEMS_MAX: usize = 2_000;
/// What the store is assumed to write per second; the lead grows when more than half of it is needed.
const WRITE_RATE: usize = 20_000;
/// The horizon is loaded again when less than this is left of it.
const HORIZON_LEFT_MS: u64 = limits::HORIZON_MS / 2;

/// Runs until told to stop; then gives its shards up after flushing its cursors.
pub async fn run(
    ctx: Context,
    dispatcher: Dispatcher,
    bells: Arc<Bells>,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    // Taken before the first load: what is written after this is seen as a change, what was written before is loaded.
    let newest = || ctx.store.load_changed(ChangeSeq(u64::MAX), 0);
    let changes = persist(&ctx, "find the newest change", newest).await?.upto;
    let ended = Owner::new(ctx.clone(), changes, dispatcher, bells).run(&mut stop).await;
    ctx.duty.set_shards([]);
    ended
}

/// Calls the store until it answers. An outage delays work; it must not lose it.
pub async fn persist<T, F: Future<Output = Result<T>>>(ctx: &Context, what: &str, call: impl Fn() -> F) -> Result<T> {
    persist_noting(ctx, what, call).await.map(|(answer, _)| answer)
}

/// The same; says also whether an earlier try may have happened although it was not answered.
pub async fn persist_noting<T, F: Future<Output = Result<T>>>(
    ctx: &Context,
    what: &str,
    call: impl Fn() -> F,
) -> Result<(T, bool)> {
    let mut delay_ms = 20;
    let mut unknown = false;
    loop {
        match call().await {
            Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown) => {
                unknown |= error.kind() == Kind::OutcomeUnknown;
                ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, call = what, delay_ms, "store call failed, retrying");
                ctx.clock.sleep_ms(delay_ms).await;
                delay_ms = (delay_ms * 2).min(1_000);
            }
            answer => return answer.map(|answer| (answer, unknown)),
        }
    }
}

/// The owner of some shards.
struct Owner {
    ctx: Context,
    dispatcher: Dispatcher,
    bells: Arc<Bells>,
    /// What the coordinator wants this node to own.
    wanted: Vec<ShardId>,
    /// The right to fire for those that are open.
    fences: Arc<[ShardFence]>,
    planner: Planner,
    /// Passes over the jobs of the horizon.
    loads: Loads,
    opening: Option<BoxFuture<'static, Result<Opening>>>,
    reading: Option<BoxFuture<'static, Result<Read>>>,
    writing: FuturesOrdered<BoxFuture<'static, Result<Written>>>,
    flushing: Option<BoxFuture<'static, (Vec<CursorMove>, Result<()>)>>,
    poll_due_ms: u64,
    flush_due_ms: u64,
    /// No read before this: the last one failed.
    read_due_ms: u64,
    /// No opening before this: the last one failed, or its shards were lost at once.
    open_due_ms: u64,
}

/// What a step of opening shards brought.
///
/// A node looks at the epochs, asks itself whether it should still own the shards, and opens those that are as it saw them. An
/// opening that is on its way while its shards go to another node takes nothing from that one.
enum Opening {
    /// The epochs that are current.
    Saw(Vec<ShardFence>),
    /// What was taken, of so many.
    Took(Vec<ShardFence>, usize),
}

/// What a read brought.
enum Read {
    /// For this pass.
    Due(PassNumber, Vec<PlannedJob>),
    Changed(Changes),
}

/// What a write did.
struct Written {
    verdict: FireVerdict,
    batch: FireBatch,
    moves: Vec<Move>,
    /// Whether an earlier try may have happened: what exists may be its work.
    unknown: bool,
}

impl Owner {
    fn new(ctx: Context, changes: ChangeSeq, dispatcher: Dispatcher, bells: Arc<Bells>) -> Self {
        Self {
            wanted: Vec::new(),
            fences: Arc::new([]),
            planner: Planner::new(ctx.clock.now(), changes),
            loads: Loads::default(),
            opening: None,
            reading: None,
            writing: FuturesOrdered::new(),
            flushing: None,
            poll_due_ms: 0,
            flush_due_ms: 0,
            read_due_ms: 0,
            open_due_ms: 0,
            ctx,
            dispatcher,
            bells,
        }
    }

    async fn run(&mut self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let mut assignment = ask(&self.ctx);
        loop {
            let wait_ms = self.step().await?;
            tokio::select! {
                biased;
                () = stopped(stop) => return self.close().await,
                told = &mut assignment => {
                    let Some(told) = told? else { return self.close().await };
                    self.assigned(told).await?;
                    // Only now: what is no longer listed must be given up before the next question.
                    assignment = ask(&self.ctx);
                }
                opening = optional(&mut self.opening), if self.opening.is_some() => {
                    self.opening = None;
                    self.opening(opening);
                }
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
                () = self.bells.changed.notified() => self.poll_due_ms = 0,
                () = self.ctx.store.wait_for_remote_change() => self.poll_due_ms = 0,
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
        let lost: Vec<ShardId> = self.open().filter(|shard| !self.wanted.contains(shard)).collect();
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
        let shards: Vec<ShardId> = self.open().collect();
        if !shards.is_empty() {
            let now = self.ctx.clock.now();
            tokio::spawn(load_waiting(self.ctx.clone(), self.dispatcher.clone(), shards, now));
        }
    }

    /// Shards that are open here.
    fn open(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.fences.iter().map(|fence| fence.shard)
    }

    /// Shards that should be open here and are not.
    fn missing(&self) -> Vec<ShardId> {
        let open: HashSet<u16> = self.open().map(|shard| shard.0).collect();
        self.wanted.iter().copied().filter(|shard| !open.contains(&shard.0)).collect()
    }

    /// Owns these shards no longer.
    fn give_up(&mut self, shards: &[ShardId]) {
        self.fences = self.fences.iter().copied().filter(|fence| !shards.contains(&fence.shard)).collect();
        self.ctx.duty.set_shards(self.fences.iter().map(|fence| fence.shard));
        self.planner.forget(shards);
        self.loads.give_up(shards);
    }

    /// A step of opening shards is done.
    fn opening(&mut self, opening: Result<Opening>) {
        let again_ms = match opening {
            Ok(Opening::Saw(current)) => {
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
                self.ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, "cannot open shards; trying again");
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
        self.fences = self.fences.iter().copied().chain(fences).collect();
        self.ctx.duty.set_shards(self.fences.iter().map(|fence| fence.shard));
        let now = self.ctx.clock.now();
        let before = now.saturating_add_ms(limits::HORIZON_MS as i64).max(self.planner.horizon());
        self.planner.extend(before);
        self.loads.begin(shards.clone(), before);
        if planted(Bug("work-of-the-dead-scheduler")) {
            // airflow#13542: what an earlier owner had queued is nobody's.
            return;
        }
        tokio::spawn(load_waiting(self.ctx.clone(), self.dispatcher.clone(), shards, now));
    }

    /// Starts everything that can start now. Returns how long nothing new is due.
    async fn step(&mut self) -> Result<u64> {
        let (now, mono) = (self.ctx.clock.now(), self.ctx.clock.monotonic_ms());
        let lead_ms = self.lead_ms(now);
        let until = now.saturating_add_ms(lead_ms as i64);
        let mut full = false;
        // The queue is asked only where there is something for it: a node with nothing to do asks nobody.
        while self.writing.len() < WRITES_IN_FLIGHT_MAX && self.planner.next_at().is_some_and(|at| at <= until) {
            if !queue_has_room(&self.ctx).await {
                full = true;
                break;
            }
            let due = self.planner.due(now, until, limits::WRITE_ITEMS_MAX);
            if due.moves.is_empty() {
                break;
            }
            self.write(due, now);
        }
        if self.opening.is_none() && mono >= self.open_due_ms {
            let store = self.ctx.store.clone();
            if !self.missing().is_empty() {
                self.opening = Some(async move { store.load_shards().await.map(Opening::Saw) }.boxed());
            }
        }
        if self.reading.is_none() && mono >= self.read_due_ms {
            self.reading = self.next_read(now, mono);
        }
        if self.flushing.is_none() && mono >= self.flush_due_ms {
            self.flush(mono);
        }
        self.ctx.metrics.planned_jobs.set(self.planner.len() as u64);
        self.ctx.metrics.cursors_dirty.set(self.planner.dirty() as u64);
        self.ctx.coordinator.report(self.planner.next_at().map_or(0, |at| now.ms_since(at)));
        let timer = self.planner.next_at().map_or(POLL_MS, |at| at.ms_since(until));
        let poll = self.poll_due_ms.max(mono + 1) - mono;
        if full {
            return Ok(FULL_MS);
        }
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
        if planted(Bug("cursor_before_commit")) {
            self.planner.committed(&due.moves);
        }
        let write = async move {
            let batch = FireBatch { fences, fires: due.fires, skips: due.skips, now, idempotency: None };
            let fire = || async {
                match ctx.store.fire(batch.clone()).await {
                    Err(error) if error.kind() == Kind::OutcomeUnknown && planted(Bug("unknown_fire_is_done")) => {
                        Ok(FireVerdict::Fired(Verdicts::of(vec![Fired::New; batch.fires.len()])))
                    }
                    answer => answer,
                }
            };
            ctx.metrics.fires.count(batch.fires.len());
            let (verdict, unknown) = persist_noting(&ctx, "fire", fire).await?;
            Ok(Written { verdict, batch, moves: due.moves, unknown })
        };
        self.writing.push_back(write.boxed());
    }

    fn written(&mut self, written: Written) {
        let metrics = &self.ctx.metrics;
        let Verdicts { verdicts, ready } = match written.verdict {
            FireVerdict::Fired(fired) => fired,
            FireVerdict::EpochLost(shards) => {
                let lost = lost(&shards, &written.batch.fences, &self.fences);
                metrics.epoch_refused.add(written.batch.fires.len() as u64);
                if !lost.is_empty() {
                    tracing::error!(shards = lost.len(), "another node owns these shards now; their jobs are given up");
                    self.give_up(&lost);
                    self.open_due_ms = self.ctx.clock.monotonic_ms() + OPEN_AGAIN_MS;
                }
                // The batch is all or nothing: what belongs to shards that are still owned is fired again.
                if !planted(Bug("refused_batch_not_undone")) {
                    self.planner.undo(&written.moves);
                }
                return;
            }
            // Scheduled fires carry no key.
            FireVerdict::Replayed(_) | FireVerdict::KeyReused => return,
        };
        let fired = verdicts.len();
        let fires = written.batch.fires.into_iter().zip(verdicts);
        // What an unanswered try has made is dispatched by nobody else; what is dispatched twice loses its second claim.
        let new: Vec<Waiting> = fires
            .filter(|(_, verdict)| *verdict == Fired::New || written.unknown)
            .map(|(fire, _)| Waiting { wake_at: fire.wake_at, dispatch: fire.dispatch })
            .collect();
        metrics.fired.add(new.len() as u64);
        metrics.fires_repeated.add((fired - new.len()) as u64);
        metrics.skips.add(written.batch.skips.len() as u64);
        self.dispatcher.send(new);
        self.dispatcher.send(ready);
        self.planner.committed(&written.moves);
    }

    /// The next thing to read: the rest of the horizon, changed jobs, or a further piece of the horizon.
    fn next_read(&mut self, now: Timestamp, mono: u64) -> Option<BoxFuture<'static, Result<Read>>> {
        let store = self.ctx.store.clone();
        if self.fences.is_empty() {
            return None;
        }
        if mono >= self.poll_due_ms {
            self.poll_due_ms = mono + CHANGES_MS;
            let since = self.planner.seen();
            return Some(
                async move { store.load_changed(since, limits::LOAD_ROWS_MAX).await.map(Read::Changed) }.boxed(),
            );
        }
        if self.loads.is_empty() && self.planner.horizon().ms_since(now) < HORIZON_LEFT_MS {
            let before = now.saturating_add_ms(limits::HORIZON_MS as i64);
            self.loads.go_on(self.open().collect(), self.planner.horizon(), before);
            self.planner.extend(before);
        }
        let (pass, query) = self.loads.ask()?;
        Some(async move { store.load_due(&query).await.map(|jobs| Read::Due(pass, jobs)) }.boxed())
    }

    /// Begins the next read while the answer to the last one is taken in: the store and the wheel work side by side.
    fn read_ahead(&mut self) {
        let (now, mono) = (self.ctx.clock.now(), self.ctx.clock.monotonic_ms());
        if let Some(next) = self.next_read(now, mono) {
            let reading = tokio::spawn(next);
            let read = async { reading.await.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a read panicked"))) };
            self.reading = Some(read.boxed());
        }
    }

    fn read(&mut self, read: Result<Read>) {
        let mut jobs = match read {
            Ok(Read::Due(pass, jobs)) => {
                self.bells.ready.store(true, Ordering::Release);
                let jobs = self.loads.answered(pass, jobs);
                self.read_ahead();
                jobs
            }
            Ok(Read::Changed(changes)) => {
                if changes.count == limits::LOAD_ROWS_MAX {
                    self.poll_due_ms = 0;
                }
                self.planner.see(changes.upto);
                changes.jobs
            }
            Err(error) => {
                self.ctx.metrics.store_errors.add(1);
                tracing::warn!(%error, "cannot load jobs; trying again");
                self.read_due_ms = self.ctx.clock.monotonic_ms() + POLL_MS;
                return;
            }
        };
        if self.fences.len() < usize::from(limits::SHARDS) {
            let mut is_open = [false; limits::SHARDS as usize];
            self.open().for_each(|shard| is_open[usize::from(shard.0)] = true);
            jobs.retain(|job| is_open[usize::from(shard_of(job.id).0)]);
        }
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

    /// Waits for the writes in flight, but not for ever: one that comes later is refused by its epoch.
    async fn await_writes(&mut self, at_most_ms: u64) -> Result<()> {
        let deadline = self.ctx.clock.monotonic_ms() + at_most_ms;
        while !self.writing.is_empty() {
            let left_ms = deadline.saturating_sub(self.ctx.clock.monotonic_ms());
            let written = tokio::select! {
                biased;
                written = self.writing.next() => written,
                () = self.ctx.clock.sleep_ms(left_ms) => return Ok(()),
            };
            if let Some(written) = written {
                self.written(written?);
            }
        }
        Ok(())
    }

    /// Waits for the writes in flight and flushes cursors, so that the next owner has little to find. Where others wait for
    /// the shards, not for long: what exists already is found by its id.
    async fn close(&mut self) -> Result<()> {
        let alone = self.ctx.duty.live_nodes().len() <= 1;
        let deadline = self.ctx.clock.monotonic_ms() + if alone { CLOSE_MS } else { HAND_OVER_MS };
        self.await_writes(if alone { CLOSE_MS } else { GIVE_UP_MS }).await?;
        if let Some(flushing) = self.flushing.take() {
            let (moves, answer) = flushing.await;
            self.flushed(moves, answer);
        }
        while self.ctx.clock.monotonic_ms() < deadline {
            let moves = self.planner.take_dirty(self.ctx.clock.now(), FLUSH_ITEMS_MAX);
            if moves.is_empty() {
                break;
            }
            if let Err(error) = self.ctx.store.advance(self.fences.clone(), moves).await {
                tracing::warn!(%error, "cannot move cursors; the next owner finds what exists already");
                break;
            }
        }
        Ok(())
    }
}

/// The next assignment.
fn ask(ctx: &Context) -> BoxFuture<'static, Result<Option<Assignment>>> {
    let coordinator = ctx.coordinator.clone();
    async move { coordinator.assignment().await }.boxed()
}

/// Hands over everything of these shards that waits: pending executions that an earlier owner made, and backoffs. What has
/// been overdue for long is left to the reaper, if the queue keeps what that owner published: most of it is there. Unless nothing
/// is there at all: then there was little, or it was kept in mind by a node that was alone, or the database crashed, which the
/// table does not outlive. What is fired from now on is
/// dispatched by whoever fires it.
async fn load_waiting(ctx: Context, dispatcher: Dispatcher, shards: Vec<ShardId>, opened_at: Timestamp) {
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

/// Of the shards whose epoch refused a write, those that are lost: a write from before an outage may be refused by the epoch under
/// which this node itself has opened its shards again, and those are still its own.
fn lost(refused: &[ShardId], written: &[ShardFence], held: &[ShardFence]) -> Vec<ShardId> {
    let fence = |fences: &[ShardFence], shard| fences.iter().find(|fence| fence.shard == shard).copied();
    refused.iter().copied().filter(|&shard| fence(written, shard) == fence(held, shard)).collect()
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

/// Whether nothing waits in the queue.
async fn is_empty(ctx: &Context) -> Result<bool> {
    for runner in [Runner::Node, Runner::Worker] {
        if persist(ctx, "see what waits in the queue", || ctx.queue.depth(runner)).await?.waiting > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The future in `slot`, or one that never ends.
async fn optional<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
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
