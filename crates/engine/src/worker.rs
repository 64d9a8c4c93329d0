//! Step 5, work: receive, claim, run the action. Before: dispatch. After: complete.
//!
//! An instant action (no effect outside the process) is recorded with claim and completion in one write. Every other attempt
//! starts only after its claim is durable, so that its fence is larger than that of every attempt before it, whatever
//! crashes. Slow actions cost a slot each and hold nothing else up.

use crate::complete::Finished;
use crate::context::Context;
use crate::fire::{persist, stopped};
use campanile_model::action::{Runner, Work};
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::queue::{Dispatch, Receive};
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Claim, Claimed, CompletionOf, Granted};
use campanile_model::{ExecutionId, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

/// What an attempt may overrun its timeout by before its lease ends.
const LEASE_MS: u64 = 10_000;
/// Executions received at once.
const RECEIVE_MAX: usize = 1_024;

/// The attempts that run in this process.
#[derive(Clone)]
pub struct Running {
    slots: Arc<Semaphore>,
    slots_max: usize,
    attempts: Arc<Mutex<Attempts>>,
}

#[derive(Default)]
struct Attempts {
    /// By execution, with its fence: an older attempt that ends late must not take a newer one's place.
    by_execution: HashMap<ExecutionId, (u64, AbortHandle)>,
    /// Nothing starts any more.
    closed: bool,
}

impl Running {
    /// None yet; at most `slots` at the same time.
    pub fn new(slots: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), slots_max: slots, attempts: Arc::default() }
    }

    /// Stops the attempt of a cancelled execution.
    pub fn abort(&self, execution: ExecutionId) {
        if let Some((_, handle)) = self.attempts.lock().by_execution.remove(&execution) {
            handle.abort();
        }
    }

    /// Stops all attempts, and lets none start any more. The next start finds their node gone and tries them again.
    pub fn close(&self) {
        let mut attempts = self.attempts.lock();
        attempts.closed = true;
        attempts.by_execution.drain().for_each(|(_, (_, handle))| handle.abort());
    }

    /// Slots in use: attempts that run, or are about to.
    pub fn len(&self) -> usize {
        self.slots_max - self.slots.available_permits()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Receives and runs until told to stop. What runs then goes on; `Running` knows it.
pub async fn run(ctx: Context, running: Running, done: mpsc::Sender<Vec<Finished>>, mut stop: watch::Receiver<bool>) {
    loop {
        // One slot is enough to receive; what comes beyond the free slots waits for them below.
        let limit = running.slots.available_permits().clamp(1, RECEIVE_MAX);
        let want = Receive { runner: Runner::Node, pools: Vec::new(), limit };
        let received = tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            received = ctx.queue.receive(&want) => received,
        };
        let batch = match received {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(%error, "cannot receive executions; trying again");
                ctx.clock.sleep_ms(1_000).await;
                continue;
            }
        };
        let ids: Vec<ExecutionId> = batch.iter().map(|d| d.execution).collect();
        let rest = instant(&ctx, batch, &done).await;
        if !rest.is_empty() {
            let slots = tokio::select! {
                biased;
                () = stopped(&mut stop) => return give_back(&ctx, rest).await,
                slots = running.slots.clone().acquire_many_owned(rest.len() as u32) => slots,
            };
            let Ok(slots) = slots else { return };
            // Claims are written side by side, so that a slow commit does not hold the next batch up.
            tokio::spawn(start(ctx.clone(), running.clone(), done.clone(), rest, slots));
        }
        if let Err(error) = ctx.queue.ack(Runner::Node, &ids).await {
            tracing::warn!(%error, "cannot acknowledge executions");
        }
    }
}

/// Gives back what was received and is not tried any more.
async fn give_back(ctx: &Context, batch: Vec<Dispatch>) {
    if let Err(error) = ctx.queue.release(batch).await {
        tracing::warn!(%error, "cannot give executions back; the next start finds them");
    }
}

/// Runs the instant ones; returns the others.
async fn instant(ctx: &Context, batch: Vec<Dispatch>, done: &mpsc::Sender<Vec<Finished>>) -> Vec<Dispatch> {
    let now = ctx.clock.now();
    let mut rest = Vec::new();
    let mut finished = Vec::with_capacity(batch.len());
    for dispatch in batch {
        let outcome = ctx.actions.get(dispatch.action).and_then(|action| action.instant(&dispatch, now));
        let Some(outcome) = outcome else {
            rest.push(dispatch);
            continue;
        };
        ctx.metrics.lateness_ms.record(now.ms_since(dispatch.fire_at));
        let of = CompletionOf::Unclaimed(claim(ctx, &dispatch, now));
        let retry = RetryPolicy::default();
        let (started_at, finished_at) = (now, now);
        finished.push(Finished { dispatch, of, outcome, retry, job_version: None, started_at, finished_at });
    }
    ctx.metrics.started.add(finished.len() as u64);
    if !finished.is_empty() {
        // The receiver is gone only when the engine stops; the executions are still pending in the store then.
        let _ = done.send(finished).await;
    }
    rest
}

/// Claims a batch and starts what was granted.
async fn start(
    ctx: Context,
    running: Running,
    done: mpsc::Sender<Vec<Finished>>,
    batch: Vec<Dispatch>,
    mut slots: OwnedSemaphorePermit,
) {
    // The instant of a claim is that of its last try, however long the store was away.
    let claims = || -> Vec<Claim> {
        let now = ctx.clock.now();
        batch.iter().map(|dispatch| claim(&ctx, dispatch, now)).collect()
    };
    let verdicts = match persist(&ctx, "claim", || ctx.store.claim(claims())).await {
        Ok(verdicts) => verdicts,
        Err(error) => {
            tracing::error!(%error, executions = batch.len(), "executions cannot be claimed");
            return;
        }
    };
    for (dispatch, verdict) in batch.into_iter().zip(verdicts) {
        let slot = slots.split(1).expect("one slot per execution");
        match verdict {
            Claimed::Granted(granted) => attempt(&ctx, &running, &done, dispatch, *granted, slot),
            Claimed::Discarded(_) => ctx.metrics.discarded.add(1),
            Claimed::Stale { .. } | Claimed::Gone => ctx.metrics.stale_refused.add(1),
        }
    }
}

fn attempt(
    ctx: &Context,
    running: &Running,
    done: &mpsc::Sender<Vec<Finished>>,
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
        ctx.metrics.lateness_ms.record(started_at.ms_since(dispatch.fire_at));
    }
    let task = tokio::spawn(async move {
        let outcome = run_action(&ctx, &granted).await;
        let of = CompletionOf::Running(granted.fence);
        let finished_at = ctx.clock.now().max(started_at);
        let (retry, job_version) = (granted.retry, Some(granted.job_version));
        let finished = Finished { dispatch, of, outcome, retry, job_version, started_at, finished_at };
        {
            let mut attempts = attempts.lock();
            if attempts.by_execution.get(&execution).is_some_and(|(newest, _)| *newest == fence) {
                attempts.by_execution.remove(&execution);
            }
        }
        let _ = done.send(vec![finished]).await;
        drop(slot);
    });
    known.by_execution.insert(execution, (fence, task.abort_handle()));
}

/// Runs one attempt; a panic in an action is a failure like any other.
async fn run_action(ctx: &Context, granted: &Granted) -> Outcome {
    let Some(action) = ctx.actions.get(granted.action.kind).cloned() else {
        return permanent("action_unknown", format!("this node has no action {}", granted.action.kind.as_str()));
    };
    let work = Work {
        execution: granted.fence.execution,
        tenant: granted.tenant,
        job: granted.job,
        job_name: granted.job_name.clone(),
        action: granted.action.clone(),
        payload: granted.payload.clone(),
        attempt: granted.fence.attempt,
        max_attempts: granted.retry.max_attempts,
        fence: granted.fence.fence,
        fire_at: granted.fire_at,
        timeout_ms: granted.timeout_ms,
    };
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
        attempt: dispatch.attempt,
        worker: ctx.node.clone(),
        now,
        lease_ms: LEASE_MS,
    }
}
