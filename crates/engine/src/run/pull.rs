//! Run by external workers: claim, heartbeat, complete, release.
//!
//! A worker asks, and waits until there is something or its time is up. What it gets is claimed in one transaction, and
//! durable before it is answered; every attempt has a fence larger than all before it. From then on the worker keeps it by
//! heartbeats; one that is silent for longer than its lease has lost it, and whatever it sends later is refused.
//!
//! A worker that hangs up while it waits has taken nothing. One that hangs up while its claim is written gets what it
//! claimed taken back at once: the claim runs in a task of its own, which notices that nobody waits for the answer.

/// Claims that the store has not answered.
mod unanswered;

use super::{count_lateness, terminated};
use crate::admit::{self, Refused};
use crate::calls::stopped;
use crate::complete::{self, Recorded};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::outcomes::Finished;
use crate::workers::{Directive, Introduction};
use campanile_model::action::Runner;
use campanile_model::execution::{AttemptOutcome, LogLine, Outcome, Progress, Reason};
use campanile_model::fault::{Bug, planted};
use campanile_model::job::Priority;
use campanile_model::lifecycle::State;
use campanile_model::queue::{Dispatch, Receive};
use campanile_model::store::{
    Applied, AttemptFence, Claim, Claimed, Extended, Extension, Granted, Lease, RunningAttempt, RunningQuery, Verdicts,
};
use campanile_model::{Error, ExecutionId, Kind, Result, TenantId, Timestamp, limits};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// An attempt on its way to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulled {
    pub granted: Granted,
    /// Which capacity it uses.
    pub pool: Arc<str>,
    /// Which handler runs it.
    pub handler: Arc<str>,
    /// When its time is up.
    pub deadline_at: Timestamp,
}

/// What a worker is told with a claim.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub pulled: Vec<Pulled>,
    /// What it is to do.
    pub directive: Directive,
}

/// A heartbeat for one execution.
#[derive(Clone, Debug)]
pub struct Beat {
    pub execution: ExecutionId,
    /// Its fence; `None` is checked by the worker's name.
    pub fence: Option<u64>,
    /// What it tells about itself.
    pub progress: Option<Progress>,
    pub logs: Vec<LogLine>,
}

/// The end of an attempt, as its worker tells it.
#[derive(Clone, Debug)]
pub struct Finish {
    pub execution: ExecutionId,
    /// Its fence; `None` is checked by the worker's name.
    pub fence: Option<u64>,
    pub worker: Option<Arc<str>>,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it ran by the worker's clock.
    pub duration_ms: Option<u64>,
    /// What it logged at last.
    pub logs: Vec<LogLine>,
}

/// What became of a finish.
#[derive(Clone, Debug, PartialEq)]
pub enum Finishing {
    /// Recorded, now or before: the state, and when the next attempt may start.
    Done {
        /// The state that it led to.
        state: State,
        /// When the next attempt may start, if there is one.
        next_attempt_at: Option<Timestamp>,
    },
    /// Refused: it is not the running attempt.
    Stale {
        /// The state the execution is in.
        state: State,
    },
    /// There is no such execution.
    Gone,
}

/// Takes up to `intro.capacity` executions for a worker, waiting up to `wait_ms` for the first.
pub async fn claim(
    ctx: &Context,
    dispatcher: &Dispatcher,
    intro: &Introduction,
    wait_ms: u64,
    stop: &mut watch::Receiver<bool>,
) -> Result<Answer> {
    let directive = ctx.workers.asks(intro, ctx.clock.now());
    if directive != Directive::Run || intro.capacity == 0 {
        return Ok(Answer { pulled: Vec::new(), directive });
    }
    let deadline = ctx.clock.monotonic_ms() + wait_ms.min(limits::PULL_WAIT_MS_MAX);
    let _waits = Waits::new(ctx, &intro.worker);
    loop {
        let opened = ctx.gate.opened.notified();
        let directive = ctx.workers.directive(&intro.worker);
        if directive != Directive::Run {
            return Ok(Answer { pulled: Vec::new(), directive });
        }
        let want = Receive {
            runner: Runner::Worker,
            pools: intro.pools.clone(),
            except: ctx.gate.closed(),
            targets: intro.handlers.clone(),
            least: Priority::Low,
            limit: intro.capacity.min(limits::PULL_ITEMS_MAX),
        };
        let left_ms = deadline.saturating_sub(ctx.clock.monotonic_ms());
        let batch = tokio::select! {
            biased;
            () = stopped(stop) => return Ok(Answer { pulled: Vec::new(), directive }),
            batch = ctx.queue.receive(&want) => batch?,
            () = opened => continue,
            () = ctx.clock.sleep_ms(left_ms) => return Ok(Answer { pulled: Vec::new(), directive }),
        };
        // From here on the batch is taken: it is claimed or given back, whoever waits.
        let (answer, answered) = oneshot::channel();
        let task = (ctx.clone(), dispatcher.clone(), intro.worker.clone());
        tokio::spawn(async move {
            let (ctx, dispatcher, worker) = task;
            let taken = take(&ctx, &dispatcher, &worker, batch).await;
            if let Err(Ok(unwanted)) = answer.send(taken) {
                give_back(&ctx, &dispatcher, unwanted).await;
            }
        });
        let pulled = answered.await.map_err(|_| Error::new(Kind::Bug, "a claim panicked"))??;
        if !pulled.is_empty() || ctx.clock.monotonic_ms() >= deadline {
            return Ok(Answer { pulled, directive: ctx.workers.directive(&intro.worker) });
        }
    }
}

/// A claim that waits, and is known to until it is answered or dropped.
struct Waits<'a> {
    ctx: &'a Context,
    worker: &'a Arc<str>,
}

impl<'a> Waits<'a> {
    fn new(ctx: &'a Context, worker: &'a Arc<str>) -> Self {
        ctx.workers.waits(worker, true, ctx.clock.now());
        Self { ctx, worker }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.ctx.workers.waits(self.worker, false, self.ctx.clock.now());
    }
}

/// Claims a batch. What is not granted goes where it belongs.
async fn take(ctx: &Context, dispatcher: &Dispatcher, worker: &Arc<str>, batch: Vec<Dispatch>) -> Result<Vec<Pulled>> {
    let go = admit::admit(ctx, dispatcher, Runner::Worker, batch).await;
    if go.is_empty() {
        return Ok(Vec::new());
    }
    let now = ctx.clock.now();
    let claims = go.iter().map(|dispatch| Claim {
        execution: dispatch.execution,
        job_version: dispatch.job_version,
        attempt: dispatch.attempt,
        worker: worker.clone(),
        now,
        lease: Lease::Beats(ctx.lease_ms),
        queued_at: dispatch.queued_at,
        as_of: dispatch.as_of,
    });
    ctx.metrics.claims.count(go.len());
    let Verdicts { verdicts, ready } = match ctx.store.claim(claims.collect()).await {
        Ok(claimed) => claimed,
        Err(error) if error.kind() == Kind::OutcomeUnknown => {
            tokio::spawn(unanswered::find_out(ctx.clone(), dispatcher.clone(), worker.clone(), go, now));
            return Err(error);
        }
        Err(error) => {
            admit::give_up(ctx, &go).await;
            admit::release(ctx, go).await;
            return Err(error);
        }
    };
    let mut acked = Vec::with_capacity(go.len());
    let mut pulled = Vec::with_capacity(go.len());
    let mut held = Vec::with_capacity(go.len());
    // What is ready goes out when those that were refused have left the gate: one of them may stand there in its name.
    let (mut back, mut later) = (Vec::new(), ready);
    for (dispatch, verdict) in go.into_iter().zip(verdicts) {
        let execution = dispatch.execution;
        if let Claimed::Granted(granted) = verdict {
            ctx.metrics.started.add(1);
            if granted.first_started_at == now {
                count_lateness(ctx, &dispatch, now);
            }
            terminated(ctx, &granted).await;
            let deadline_at = now.saturating_add_ms(i64::try_from(granted.timeout_ms).unwrap_or(i64::MAX));
            let (pool, handler) = (dispatch.pool.clone(), dispatch.target.clone());
            held.push(granted_to(worker, &granted, dispatch, now));
            pulled.push(Pulled { granted: *granted, pool, handler, deadline_at });
            acked.push(execution);
            continue;
        }
        match admit::refused(ctx, dispatch, &verdict, now).await {
            Refused::Back(dispatch) => {
                back.push(dispatch);
                continue;
            }
            Refused::Later(waiting) => later.push(waiting),
            Refused::Over => {}
        }
        acked.push(execution);
    }
    admit::release(ctx, back).await;
    dispatcher.send(later);
    if let Err(error) = ctx.queue.ack(Runner::Worker, &acked).await {
        tracing::warn!(%error, "cannot acknowledge executions");
    }
    let beyond = within(&pulled, limits::PULL_BYTES_MAX);
    let unwanted = pulled.split_off(beyond);
    if !unwanted.is_empty() {
        give_back(ctx, dispatcher, unwanted).await;
    }
    ctx.workers.hold(held.into_iter().take(pulled.len()));
    Ok(pulled)
}

/// A granted attempt as `load_running` would have it.
fn granted_to(worker: &Arc<str>, granted: &Granted, mut dispatch: Dispatch, now: Timestamp) -> RunningAttempt {
    dispatch.attempt = granted.fence.attempt;
    RunningAttempt {
        fence: granted.fence,
        dispatch,
        retry: granted.definition.retry,
        timeout_ms: granted.timeout_ms,
        started_at: now,
        worker: worker.clone(),
        lease_until: granted.lease_until,
        attempts_from: granted.attempts_from,
        losses: granted.losses,
        first_started_at: granted.first_started_at,
        cancel_requested: None,
    }
}

/// How many of these fit into one answer; at least one.
fn within(pulled: &[Pulled], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = pulled.iter().position(|one| {
        bytes += one.granted.definition.payload.len();
        bytes > bytes_max
    });
    fits.map_or(pulled.len(), |beyond| beyond.max(1))
}

/// Gives back what was claimed for a worker that has hung up.
async fn give_back(ctx: &Context, dispatcher: &Dispatcher, pulled: Vec<Pulled>) {
    let now = ctx.clock.now();
    let ids: Vec<ExecutionId> = pulled.iter().map(|p| p.granted.fence.execution).collect();
    let released = async {
        let running = ctx.store.load_running(&RunningQuery::Of(ids)).await?;
        let mine = |fence: &AttemptFence| pulled.iter().any(|p| p.granted.fence == *fence);
        let attempts = running.into_iter().filter(|attempt| mine(&attempt.fence));
        let finished = attempts.map(|attempt| Finished::of(attempt, Outcome::Released, now)).collect();
        complete::write_once(ctx, dispatcher, finished).await
    };
    if let Err(error) = released.await {
        tracing::warn!(%error, "a worker hung up on its claim, and it cannot be given back; its lease will end");
    }
}

/// Prolongs the leases of a worker. One verdict each.
pub async fn heartbeat(ctx: &Context, worker: &Arc<str>, beats: Vec<Beat>) -> Result<(Vec<Extended>, Directive)> {
    let now = ctx.clock.now();
    let directive = ctx.workers.beats(worker, beats.len(), now);
    let lease_until = now.saturating_add_ms(ctx.lease_ms as i64);
    let extensions = beats.into_iter().map(|beat| Extension {
        execution: beat.execution,
        fence: beat.fence,
        worker: worker.clone(),
        now,
        lease_until,
        progress: beat.progress,
        logs: beat.logs,
    });
    let verdicts = ctx.store.extend(extensions.collect()).await?;
    let stale = verdicts.iter().filter(|v| matches!(v, Extended::Stale { .. } | Extended::Gone)).count();
    ctx.metrics.stale_refused.add(stale as u64);
    Ok((verdicts, directive))
}

/// Tells a worker what to do with its next claim or heartbeat.
pub fn direct(ctx: &Context, worker: &str, directive: Directive) -> Result<()> {
    if ctx.workers.direct(worker, directive) {
        // Its claim may be waiting: it looks again.
        ctx.gate.opened.notify_waiters();
        return Ok(());
    }
    let message = format!("no worker `{worker}` was heard of within the last hour");
    Err(Error::new(Kind::NotFound, message).with_code("worker_not_found"))
}

/// Ends attempts. One verdict each; the same one again gets the same answer.
pub async fn finish(
    ctx: &Context,
    dispatcher: &Dispatcher,
    tenant: TenantId,
    finishes: Vec<Finish>,
) -> Result<Vec<Finishing>> {
    let mut verdicts: Vec<Option<Finishing>> = vec![None; finishes.len()];
    // Twice, because a cancel may come between reading and writing: what was asked to stop is settled differently.
    for round in 0..2 {
        let open: Vec<usize> = (0..finishes.len()).filter(|&i| verdicts[i].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let ids: Vec<ExecutionId> = open.iter().map(|&i| finishes[i].execution).collect();
        let now = ctx.clock.now();
        // What succeeded succeeded, asked to stop or not; how else it ended depends on that.
        let plain = open.iter().all(|&i| matches!(finishes[i].outcome, Outcome::Succeeded { .. }));
        let running = running(ctx, &ids, round == 0 && plain).await?;
        let mut writes = Vec::with_capacity(open.len());
        let mut written = Vec::with_capacity(open.len());
        for (i, attempt) in open.into_iter().zip(running) {
            if let Some(attempt) = attempt.filter(|attempt| may_end(attempt, &finishes[i], tenant)) {
                writes.push(ended(attempt, &finishes[i], now));
                written.push(i);
            } else {
                verdicts[i] = Some(repeated(ctx, tenant, &finishes[i]).await?);
            }
        }
        let recorded = complete::write_once(ctx, dispatcher, writes).await?;
        for (i, Recorded { verdict, state, next_attempt_at }) in written.into_iter().zip(recorded) {
            match verdict {
                Applied::Done => verdicts[i] = Some(Finishing::Done { state, next_attempt_at }),
                // Still running: it was asked to stop meanwhile. Read again.
                Applied::Stale { state: State::Running } => {}
                Applied::Stale { .. } | Applied::Gone => {
                    verdicts[i] = Some(repeated(ctx, tenant, &finishes[i]).await?);
                }
            }
        }
    }
    let stale = Finishing::Stale { state: State::Running };
    let verdicts: Vec<Finishing> = verdicts.into_iter().map(|v| v.unwrap_or_else(|| stale.clone())).collect();
    let refused = verdicts.iter().filter(|v| !matches!(v, Finishing::Done { .. })).count();
    ctx.metrics.stale_refused.add(refused as u64);
    Ok(verdicts)
}

/// The running attempts of these: as remembered, where that is wanted and there is anything to remember, or as stored.
async fn running(ctx: &Context, ids: &[ExecutionId], remembered: bool) -> Result<Vec<Option<RunningAttempt>>> {
    let mut found = ctx.workers.take(ids);
    if !remembered {
        found.fill(None);
    }
    let unknown: Vec<ExecutionId> =
        ids.iter().zip(&found).filter(|(_, known)| known.is_none()).map(|(&id, _)| id).collect();
    if !unknown.is_empty() {
        let stored = ctx.store.load_running(&RunningQuery::Of(unknown)).await?;
        let stored: HashMap<_, _> = stored.into_iter().map(|attempt| (attempt.fence.execution, attempt)).collect();
        for (id, attempt) in ids.iter().zip(&mut found).filter(|(_, known)| known.is_none()) {
            *attempt = stored.get(id).cloned();
        }
    }
    Ok(found)
}

/// Whether a worker may end an attempt.
fn may_end(attempt: &RunningAttempt, finish: &Finish, tenant: TenantId) -> bool {
    let known = match (finish.fence, &finish.worker) {
        // Sketch S12: the same name is not the same attempt.
        (Some(_), _) if planted(Bug("compared-by-worker-name")) => true,
        (Some(fence), _) => fence == attempt.fence.fence,
        (None, Some(worker)) => *worker == attempt.worker,
        (None, None) => false,
    };
    known && attempt.dispatch.tenant == tenant
}

fn ended(attempt: RunningAttempt, finish: &Finish, now: Timestamp) -> Finished {
    // The worker knows better when it started; but nobody starts before the claim.
    let started_at = finish.duration_ms.map_or(attempt.started_at, |duration_ms| {
        now.saturating_add_ms(-i64::try_from(duration_ms).unwrap_or(i64::MAX)).max(attempt.started_at)
    });
    let mut finished = Finished::of(attempt, finish.outcome.clone(), now);
    finished.started_at = started_at;
    finished.logs.clone_from(&finish.logs);
    finished
}

/// The answer to a completion of an attempt that does not run: what it got the first time, if it is a repetition.
async fn repeated(ctx: &Context, tenant: TenantId, finish: &Finish) -> Result<Finishing> {
    let found = ctx.store.get_executions(tenant, &[finish.execution]).await?.pop().flatten();
    let Some(execution) = found else { return Ok(Finishing::Gone) };
    let refused = Finishing::Stale { state: execution.state };
    let Some(fence) = finish.fence else { return Ok(refused) };
    if execution.fence == fence && execution.outcome == Some(AttemptOutcome::Released) {
        // It left no attempt behind, only this.
        return Ok(match finish.outcome {
            Outcome::Released => Finishing::Done { state: State::Pending, next_attempt_at: Some(execution.wake_at) },
            _ => refused,
        });
    }
    let attempts = ctx.store.list_attempts(tenant, finish.execution).await?;
    let outcome = attempts.iter().find(|attempt| attempt.fence == fence).and_then(|attempt| attempt.outcome);
    if outcome != Some(finish.outcome.attempt_outcome()) {
        return Ok(refused);
    }
    let newest = execution.fence == fence;
    let state = if newest { execution.state } else { State::Retrying };
    let waits = newest && matches!(state, State::Retrying | State::Pending);
    Ok(Finishing::Done { state, next_attempt_at: waits.then_some(execution.wake_at) })
}

/// Why an attempt was asked to stop, for its worker.
pub const fn cancel_reason(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(reason) => reason.as_str(),
        None => "TIMEOUT",
    }
}
