//! Step 5, work: receive, claim, run the action. Before: dispatch. After: complete.
//!
//! An instant action (no effect outside the process) is recorded with claim and completion in one write. Every other attempt
//! starts only after its claim is durable, so that its fence is larger than that of every attempt before it, whatever
//! crashes. Slow actions cost a slot each. Only while very many attempts wait until their target can be called (`room`) is
//! nothing else started, but for what is critical.

use crate::complete::{Finished, Outcomes};
use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::fire::{persist, persist_noting, stopped};
use crate::gate::{Admitted, Left};
use campanile_model::action::{Runner, Work};
use campanile_model::execution::{AttemptError, Outcome, Reason};
use campanile_model::fault::{self, Bug, Point, planted};
use campanile_model::job::{POOL_LONG, Priority};
use campanile_model::lifecycle::{Ended, State};
use campanile_model::queue::{Dispatch, Receive};
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Claim, Claimed, CompletionOf, Deferral, Granted, Lease, RunningQuery, Verdicts, Waiting};
use campanile_model::{ExecutionId, Timestamp, limits};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

/// What an attempt may overrun its timeout by before its lease ends.
const LEASE_MS: u64 = 10_000;
/// Executions received at once, and claims in one write. It bounds how long others wait for the write.
const RECEIVE_MAX: usize = 1_024;
/// Claims of a lane on their way to the store at the same time: while they are written, what comes next gathers in the queue.
const CLAIMS_IN_FLIGHT_MAX: usize = 2;
/// The same as `RECEIVE_MAX` for critical work alone: so few rows that no store lets them wait behind a large write.
const RECEIVE_CRITICAL_MAX: usize = 16;
/// Attempts that were claimed and wait for others of their target: enough that nobody waits for a claim.
const BEGINNING_MAX: usize = 1_024;
/// When there is no room, how soon to look again.
const ROOM_MS: u64 = 2;

/// The attempts that run in this process.
#[derive(Clone)]
pub struct Running {
    /// By lane.
    slots: [Arc<Semaphore>; Lane::ALL.len()],
    slots_max: usize,
    attempts: Arc<Mutex<Attempts>>,
}

/// What a loop receives and runs, each with slots of its own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Lane {
    /// What is critical, of all pools but `long`. The next lane takes it too; here it waits neither for slots nor for the claims
    /// of a large batch.
    Critical,
    /// All pools but `long`.
    Short,
    /// The pool `long`: long work never takes the place of short work.
    Long,
}

impl Lane {
    /// All that a node has.
    pub const ALL: [Lane; 3] = [Lane::Critical, Lane::Short, Lane::Long];
}

#[derive(Default)]
struct Attempts {
    /// By execution, with its fence: an older attempt that ends late must not take a newer one's place.
    by_execution: HashMap<ExecutionId, (u64, AbortHandle)>,
    /// Nothing starts any more.
    closed: bool,
}

impl Default for Running {
    fn default() -> Self {
        Self::new(limits::SLOTS_MAX)
    }
}

impl Running {
    /// None yet; at most `slots` at the same time, a quarter of them for the pool `long`, a few for what is critical. Every lane has
    /// at least one.
    pub fn new(slots: usize) -> Self {
        let (critical, long) = ((slots / 16).max(1), (slots / 4).max(1));
        let short = slots.saturating_sub(critical + long).max(1);
        let slots = Lane::ALL.map(|lane| match lane {
            Lane::Critical => critical,
            Lane::Short => short,
            Lane::Long => long,
        });
        let slots_max = slots.iter().sum();
        Self { slots: slots.map(|slots| Arc::new(Semaphore::new(slots))), slots_max, attempts: Arc::default() }
    }

    /// Stops the attempt of a cancelled execution.
    pub fn abort(&self, execution: ExecutionId) {
        if let Some((_, handle)) = self.attempts.lock().by_execution.remove(&execution) {
            handle.abort();
        }
    }

    /// Whether the attempt with this fence runs here.
    pub fn knows(&self, execution: ExecutionId, fence: u64) -> bool {
        self.attempts.lock().by_execution.get(&execution).is_some_and(|(running, _)| *running == fence)
    }

    /// Stops all attempts, and lets none start any more. The next start finds their node gone and tries them again.
    pub fn close(&self) {
        let mut attempts = self.attempts.lock();
        attempts.closed = true;
        attempts.by_execution.drain().for_each(|(_, (_, handle))| handle.abort());
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots_max
    }

    /// Slots in use: attempts that run, or are about to.
    pub fn len(&self) -> usize {
        self.slots_max - self.slots.iter().map(|slots| slots.available_permits()).sum::<usize>()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Receives and runs until told to stop. What runs then goes on; `Running` knows it.
pub async fn run(
    ctx: Context,
    lane: Lane,
    running: Running,
    dispatcher: Dispatcher,
    done: Outcomes,
    mut stop: watch::Receiver<bool>,
) {
    let slots = running.slots[lane as usize].clone();
    let turns = Arc::new(Semaphore::new(CLAIMS_IN_FLIGHT_MAX));
    let receive_max = RECEIVE_MAX.min(ctx.store.write_rows_max());
    loop {
        let turn = tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            turn = turn(&ctx, lane, &turns, &slots) => turn,
        };
        let Some(turn) = turn else { return };
        let limit = slots.available_permits().min(room(&ctx, lane)).clamp(1, receive_max);
        let opened = ctx.gate.opened.notified();
        let want = want(&ctx, lane, limit);
        let received = tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            received = ctx.queue.receive(&want) => received,
            () = opened => continue,
        };
        let batch = match received {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(%error, "cannot receive executions; trying again");
                ctx.clock.sleep_ms(1_000).await;
                continue;
            }
        };
        let mut admitted = ctx.gate.admit(batch, ctx.clock.now(), || ctx.random.next());
        let go = std::mem::take(&mut admitted.go);
        put_off(&ctx, &dispatcher, Runner::Node, admitted).await;
        let mut ids: Vec<ExecutionId> = go.iter().map(|d| d.execution).collect();
        let rest = instant(&ctx, go, &done).await;
        // What is critical has a write of its own: a small one, which goes before that of the others.
        let (critical, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|dispatch| dispatch.priority == Priority::Critical);
        let turn = Arc::new(turn);
        for batch in [critical, others].into_iter().filter(|batch| !batch.is_empty()) {
            let slots = tokio::select! {
                biased;
                () = stopped(&mut stop) => {
                    ids.retain(|id| batch.iter().all(|dispatch| dispatch.execution != *id));
                    release(&ctx, batch).await;
                    continue;
                }
                slots = slots.clone().acquire_many_owned(batch.len() as u32) => slots,
            };
            let Ok(slots) = slots else { return };
            let start = start(ctx.clone(), running.clone(), dispatcher.clone(), done.clone(), batch, slots);
            let turn = turn.clone();
            tokio::spawn(async move {
                start.await;
                drop(turn);
            });
        }
        if let Err(error) = ctx.queue.ack(Runner::Node, &ids).await {
            tracing::warn!(%error, "cannot acknowledge executions");
        }
    }
}

/// Waits until claims may be written, a slot is free, and not too many attempts wait to begin.
async fn turn(ctx: &Context, lane: Lane, turns: &Arc<Semaphore>, slots: &Semaphore) -> Option<OwnedSemaphorePermit> {
    let turn = turns.clone().acquire_owned().await.ok()?;
    let _free = slots.acquire().await.ok()?;
    while room(ctx, lane) == 0 {
        ctx.clock.sleep_ms(ROOM_MS).await;
    }
    Some(turn)
}

/// How many attempts more may wait to begin. Critical ones wait before all others.
fn room(ctx: &Context, lane: Lane) -> usize {
    if lane == Lane::Critical {
        return RECEIVE_CRITICAL_MAX;
    }
    BEGINNING_MAX.saturating_sub(ctx.actions.waiting())
}

/// What a lane may receive: nothing from pools that are closed.
fn want(ctx: &Context, lane: Lane, limit: usize) -> Receive {
    let (mut pools, mut except, mut least) = (Vec::new(), ctx.gate.closed(), Priority::Low);
    match lane {
        Lane::Critical => {
            except.push(POOL_LONG.into());
            least = Priority::Critical;
        }
        Lane::Short => except.push(POOL_LONG.into()),
        Lane::Long => pools.push(POOL_LONG.into()),
    }
    Receive { runner: Runner::Node, pools, except, targets: Vec::new(), least, limit }
}

/// Gives back what was received and is not tried now.
pub(crate) async fn release(ctx: &Context, batch: Vec<Dispatch>) {
    if !batch.is_empty()
        && let Err(error) = ctx.queue.release(batch).await
    {
        tracing::warn!(%error, "cannot give executions back; the next start finds them");
    }
}

/// Publishes those whom the gate has called. One that cannot be published is found by the reaper.
pub(crate) async fn publish(ctx: &Context, called: Vec<Dispatch>) {
    let mut batch = called;
    while !batch.is_empty() {
        let ids: Vec<ExecutionId> = batch.iter().map(|dispatch| dispatch.execution).collect();
        let Err(error) = ctx.queue.publish(batch).await else { return };
        tracing::warn!(%error, executions = ids.len(), "cannot publish executions; the reaper will");
        let now = ctx.clock.now();
        batch = ids.into_iter().flat_map(|id| ctx.gate.forget(id, now)).collect();
    }
}

/// What the gate did not let through: back to the queue, kept in a line, or to be looked at again later with the reason in
/// its row.
pub(crate) async fn put_off(ctx: &Context, dispatcher: &Dispatcher, runner: Runner, admitted: Admitted) {
    let Admitted { go: _, back, later, kept } = admitted;
    release(ctx, back).await;
    let mut ids = kept;
    if !later.is_empty() {
        ids.extend(later.iter().map(|(dispatch, ..)| dispatch.execution));
        defer(ctx, dispatcher, later).await;
    }
    if !ids.is_empty()
        && let Err(error) = ctx.queue.ack(runner, &ids).await
    {
        tracing::warn!(%error, "cannot acknowledge executions");
    }
}

async fn defer(ctx: &Context, dispatcher: &Dispatcher, later: Vec<(Dispatch, Timestamp, Reason)>) {
    ctx.metrics.deferred.add(later.len() as u64);
    let deferrals = later.iter().map(|(dispatch, wake_at, reason)| Deferral {
        execution: dispatch.execution,
        attempt: dispatch.attempt,
        wake_at: *wake_at,
        reason: *reason,
    });
    if let Err(error) = ctx.store.defer(deferrals.collect()).await {
        // They wait here all the same; a restart would look at them sooner.
        tracing::warn!(%error, "cannot note why executions wait");
    }
    dispatcher.send(later.into_iter().map(|(dispatch, wake_at, _)| Waiting { dispatch, wake_at }).collect());
}

/// What becomes of an execution whose claim was not granted.
pub(crate) enum Refused {
    /// Nothing: it is somebody else's, or over, or its turn comes by itself.
    Over,
    /// It belongs back into the queue.
    Back(Dispatch),
    /// It waits.
    Later(Waiting),
}

/// Counts a claim that was not granted, and says what becomes of the execution.
pub(crate) async fn refused(ctx: &Context, dispatch: Dispatch, verdict: &Claimed, now: Timestamp) -> Refused {
    publish(ctx, ctx.gate.done(&dispatch, Left::Refused, now).into_iter().collect()).await;
    match verdict {
        Claimed::Discarded(_) => ctx.metrics.discarded.add(1),
        Claimed::Held { by, .. } => {
            ctx.metrics.held.add(1);
            tracing::debug!(execution = %dispatch.execution, %by, "waits for an earlier run of its job");
        }
        Claimed::Deferred(_) => {
            ctx.metrics.deferred.add(1);
            ctx.gate.full(&dispatch);
            return Refused::Back(dispatch);
        }
        Claimed::Early { wake_at } => return Refused::Later(Waiting { dispatch, wake_at: *wake_at }),
        Claimed::Stale { .. } | Claimed::Gone => ctx.metrics.stale_refused.add(1),
        Claimed::Granted(_) => {}
    }
    Refused::Over
}

/// Stops the attempt that a new run has taken the place of, if it runs in this process.
pub(crate) async fn terminated(ctx: &Context, granted: &Granted) {
    if let Some(other) = granted.terminated {
        ended(ctx, other).await;
    }
}

/// An execution was ended in the store: its attempt is stopped, if it is one of this process, and its slots are free.
pub(crate) async fn ended(ctx: &Context, execution: ExecutionId) {
    ctx.running.abort(execution);
    publish(ctx, ctx.gate.forget(execution, ctx.clock.now())).await;
}

/// Runs the instant ones; returns the others.
async fn instant(ctx: &Context, batch: Vec<Dispatch>, done: &Outcomes) -> Vec<Dispatch> {
    let now = ctx.clock.now();
    let mut rest = Vec::new();
    let mut finished = Vec::with_capacity(batch.len());
    for dispatch in batch {
        let outcome = ctx.actions.get(dispatch.action).and_then(|action| action.instant(&dispatch, now));
        let Some(outcome) = outcome else {
            rest.push(dispatch);
            continue;
        };
        count_lateness(ctx, &dispatch, now);
        let of = CompletionOf::Unclaimed(claim(ctx, &dispatch, now));
        let retry = RetryPolicy::default();
        let ended = Ended {
            attempt: dispatch.attempt + 1,
            attempts_from: 0,
            losses: 0,
            first_started_at: now,
            finished_at: now,
            cancel_requested: None,
        };
        let (started_at, logs) = (now, Vec::new());
        finished.push(Finished { dispatch, of, outcome, retry, started_at, ended, logs, slot: None });
    }
    ctx.metrics.started.add(finished.len() as u64);
    done.send(finished).await;
    rest
}

/// None of these could be claimed: their places at the gate are free.
pub(crate) async fn give_up(ctx: &Context, batch: &[Dispatch]) {
    let now = ctx.clock.now();
    let called = batch.iter().filter_map(|dispatch| ctx.gate.done(dispatch, Left::Refused, now)).collect();
    publish(ctx, called).await;
}

/// Claims a batch and starts what was granted.
async fn start(
    ctx: Context,
    running: Running,
    dispatcher: Dispatcher,
    done: Outcomes,
    batch: Vec<Dispatch>,
    mut slots: OwnedSemaphorePermit,
) {
    // The instant of a claim is that of its last try, however long the store was away.
    let claims = || -> Vec<Claim> {
        let now = ctx.clock.now();
        batch.iter().map(|dispatch| claim(&ctx, dispatch, now)).collect()
    };
    ctx.metrics.claims.count(batch.len());
    let Verdicts { verdicts, ready } = match persist_noting(&ctx, "claim", || ctx.store.claim(claims())).await {
        Ok((claimed, unknown)) => {
            if unknown && !planted(Bug("claim_not_given_back")) {
                give_back(&ctx, &batch, &claimed.verdicts, &done).await;
            }
            claimed
        }
        Err(error) => {
            tracing::error!(%error, executions = batch.len(), "executions cannot be claimed; the reaper finds them");
            give_up(&ctx, &batch).await;
            return;
        }
    };
    // What is ready goes out when those that were refused have left the gate: one of them may stand there in its name.
    let (mut back, mut later) = (Vec::new(), ready);
    for (dispatch, verdict) in batch.into_iter().zip(verdicts) {
        let slot = slots.split(1).expect("one slot per execution");
        if let Claimed::Granted(granted) = verdict {
            terminated(&ctx, &granted).await;
            attempt(&ctx, &running, &done, dispatch, *granted, slot);
            continue;
        }
        match refused(&ctx, dispatch, &verdict, ctx.clock.now()).await {
            Refused::Back(dispatch) => back.push(dispatch),
            Refused::Later(waiting) => later.push(waiting),
            Refused::Over => {}
        }
    }
    release(&ctx, back).await;
    dispatcher.send(later);
}

/// After a claim that was not answered and may have happened: the attempts that it began are given back. Nobody has started
/// them, and their fences are known to nobody but the store.
async fn give_back(ctx: &Context, batch: &[Dispatch], verdicts: &[Claimed], done: &Outcomes) {
    let runs = |verdict: &Claimed| matches!(verdict, Claimed::Stale { state: State::Running });
    let refused = batch.iter().zip(verdicts).filter(|(_, verdict)| runs(verdict));
    let ids: Vec<ExecutionId> = refused.map(|(dispatch, _)| dispatch.execution).collect();
    let (count, query) = (ids.len(), RunningQuery::Of(ids));
    let attempts = match persist(ctx, "read attempts again", || ctx.store.load_running(&query)).await {
        Ok(attempts) => attempts,
        Err(error) => {
            tracing::error!(%error, executions = count, "attempts that may have begun cannot be read");
            return;
        }
    };
    let now = ctx.clock.now();
    let ours = attempts.into_iter().filter(|attempt| {
        attempt.worker == ctx.node && !ctx.running.knows(attempt.fence.execution, attempt.fence.fence)
    });
    let finished: Vec<Finished> = ours.map(|attempt| Finished::of(attempt, Outcome::Released, now)).collect();
    done.send(finished).await;
}

fn attempt(
    ctx: &Context,
    running: &Running,
    done: &Outcomes,
    dispatch: Dispatch,
    granted: Granted,
    slot: OwnedSemaphorePermit,
) {
    let (execution, fence) = (dispatch.execution, granted.fence.fence);
    let (ctx, attempts, done) = (ctx.clone(), running.attempts.clone(), done.clone());
    let started_at = ctx.clock.now();
    // The map is locked until the handle is in it, so that the attempt cannot end before it is known.
    let mut known = running.attempts.lock();
    if known.closed {
        return;
    }
    ctx.metrics.started.add(1);
    if granted.fence.attempt == 1 {
        count_lateness(&ctx, &dispatch, started_at);
    }
    let task = tokio::spawn(async move {
        let outcome = run_action(&ctx, &granted).await;
        let of = CompletionOf::Running(granted.fence);
        let ended = Ended {
            attempt: granted.fence.attempt,
            attempts_from: granted.attempts_from,
            losses: granted.losses,
            first_started_at: granted.first_started_at,
            finished_at: ctx.clock.now().max(started_at),
            cancel_requested: None,
        };
        let (retry, logs) = (granted.definition.retry, Vec::new());
        let finished = Finished { dispatch, of, outcome, retry, started_at, ended, logs, slot: Some(slot) };
        {
            let mut attempts = attempts.lock();
            if attempts.by_execution.get(&execution).is_some_and(|(newest, _)| *newest == fence) {
                attempts.by_execution.remove(&execution);
            }
        }
        done.send_one(finished).await;
    });
    known.by_execution.insert(execution, (fence, task.abort_handle()));
}

/// Counts how late a first start is. What was not released about when it was due was caught up, filled in or put off: that is
/// no lateness of ours.
pub(crate) fn count_lateness(ctx: &Context, dispatch: &Dispatch, started_at: Timestamp) {
    let punctual = |queued_at: Timestamp| queued_at.ms_since(dispatch.fire_at) <= limits::MISFIRE_GRACE_MS;
    if dispatch.queued_at.is_none_or(punctual) {
        ctx.metrics.lateness_ms.record(started_at.ms_since(dispatch.fire_at));
    }
}

/// Runs one attempt; a panic in an action is a failure like any other.
async fn run_action(ctx: &Context, granted: &Granted) -> Outcome {
    let definition = &granted.definition;
    let kind = definition.action.kind;
    let Some(action) = ctx.actions.get(kind).cloned() else {
        return permanent("action_unknown", format!("this node has no action {}", kind.as_str()));
    };
    let work = Work {
        execution: granted.fence.execution,
        tenant: granted.tenant,
        job: granted.job,
        definition: definition.clone(),
        attempt: granted.fence.attempt,
        max_attempts: definition.retry.max_attempts.saturating_add(granted.attempts_from),
        fence: granted.fence.fence,
        fire_at: granted.fire_at,
        timeout_ms: granted.timeout_ms,
        covers_from: granted.covers_from,
    };
    fault::reach(Point("action.run.before"));
    let guarded = std::panic::AssertUnwindSafe(action.run(&work));
    let outcome = tokio::select! {
        biased;
        outcome = futures_util::FutureExt::catch_unwind(guarded) => outcome,
        // Actions end by themselves; one that does not must not hold its slot for ever.
        () = ctx.clock.sleep_ms(granted.timeout_ms.saturating_add(LEASE_MS)) => {
            let message = format!("the action did not end within {} ms", granted.timeout_ms);
            return Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message } };
        }
    };
    fault::reach(Point("action.run.after"));
    match outcome {
        Ok(outcome) => outcome,
        Err(_) => permanent("panic", "the action panicked; this is a bug".into()),
    }
}

fn permanent(kind: &str, message: String) -> Outcome {
    let error = AttemptError { kind: kind.into(), message };
    Outcome::Failed { error, retryable: false, retry_after_ms: None, pause_job: false, response: None }
}

fn claim(ctx: &Context, dispatch: &Dispatch, now: Timestamp) -> Claim {
    Claim {
        execution: dispatch.execution,
        job_version: dispatch.job_version,
        attempt: dispatch.attempt,
        worker: ctx.node.clone(),
        now,
        lease: Lease::BeyondTimeout(LEASE_MS),
        queued_at: dispatch.queued_at,
        as_of: dispatch.as_of,
    }
}
