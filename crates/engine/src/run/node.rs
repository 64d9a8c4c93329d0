//! Run by this node: receive, claim, do what the action says.
//!
//! An instant action (no effect outside the process) is recorded with claim and completion in one write. Every other attempt
//! starts only after its claim is durable, so that its fence is larger than that of every attempt before it, whatever
//! crashes. Slow actions cost a slot each. Only while very many attempts wait until their target can be called (`room`) is
//! nothing else started, but for what is critical.

use super::{count_lateness, terminated};
use crate::admit::{Refused, admit, give_up, refused, release};
use crate::calls::{self, persist, persist_noting, stopped};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::outcomes::{Finished, Outcomes};
use crate::running::{Lane, Running};
use campanile_model::action::{Runner, Work};
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::fault::{self, Bug, Point, planted};
use campanile_model::job::{POOL_LONG, Priority};
use campanile_model::lifecycle::{Ended, State};
use campanile_model::queue::{Dispatch, Receive};
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Claim, Claimed, CompletionOf, Granted, Lease, RunningQuery, Verdicts};
use campanile_model::{ExecutionId, Timestamp};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

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

/// Receives and runs until told to stop. What runs then goes on; `Running` knows it.
pub async fn run(
    ctx: Context,
    lane: Lane,
    running: Running,
    dispatcher: Dispatcher,
    done: Outcomes,
    mut stop: watch::Receiver<bool>,
) {
    let slots = running.slots_of(lane);
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
                calls::failed(&ctx, "receive executions", &error);
                ctx.clock.sleep_ms(1_000).await;
                continue;
            }
        };
        let go = admit(&ctx, &dispatcher, Runner::Node, batch).await;
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

/// Starts an attempt, which ends by telling `done`.
fn attempt(
    ctx: &Context,
    running: &Running,
    done: &Outcomes,
    dispatch: Dispatch,
    granted: Granted,
    slot: OwnedSemaphorePermit,
) {
    let of = (dispatch.execution, granted.fence.fence);
    running.start(of, || {
        let started_at = ctx.clock.now();
        ctx.metrics.started.add(1);
        if granted.fence.attempt == 1 {
            count_lateness(ctx, &dispatch, started_at);
        }
        let (ctx, running, done) = (ctx.clone(), running.clone(), done.clone());
        let task = tokio::spawn(async move {
            let finished = run_attempt(&ctx, dispatch, granted, started_at, slot).await;
            running.ended(of);
            done.send_one(finished).await;
        });
        task.abort_handle()
    });
}

async fn run_attempt(
    ctx: &Context,
    dispatch: Dispatch,
    granted: Granted,
    started_at: Timestamp,
    slot: OwnedSemaphorePermit,
) -> Finished {
    let outcome = run_action(ctx, &granted).await;
    let ended = Ended {
        attempt: granted.fence.attempt,
        attempts_from: granted.attempts_from,
        losses: granted.losses,
        first_started_at: granted.first_started_at,
        finished_at: ctx.clock.now().max(started_at),
        cancel_requested: None,
    };
    let (of, retry, logs) = (CompletionOf::Running(granted.fence), granted.definition.retry, Vec::new());
    Finished { dispatch, of, outcome, retry, started_at, ended, logs, slot: Some(slot) }
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
