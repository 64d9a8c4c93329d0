//! Step 9, complete: outcomes become states, attempt rows, backoffs and dead letters, many in one transaction. Before: run.
//!
//! `lifecycle::settle` decides between another attempt and the end. What is to be tried again goes back to dispatch
//! with the end of its backoff; so does who waited for a run of its job to end. A completion that comes too late
//! (cancelled meanwhile, lease lost) is refused by the store and counted. On a crash before the write the attempt is
//! lost with its node, and the reaper tries it again.
//!
//! A write takes whatever has ended since the one before it. The slots of its attempts are free when it is durable, all at
//! once, so that the next claim finds as many: batches grow with the load, from one to what the store writes at once,
//! without any timer.

use crate::calls::persist;
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::gate::Left;
use crate::jobs::{self, Conditions};
use crate::lines;
use crate::outcomes::{Finished, Inbox};
use campanile_model::execution::Outcome;
use campanile_model::fault::{Bug, planted};
use campanile_model::job::version::Change;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::queue::Dispatch;
use campanile_model::store::{Applied, Completion, CompletionOf, JobKey, Verdicts, Waiting};
use campanile_model::{JobId, Kind, Result, TenantId, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// What became of a completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub verdict: Applied,
    /// The state that the execution is in if it was done.
    pub state: State,
    /// When the next attempt may start, if there is one.
    pub next_attempt_at: Option<Timestamp>,
}

/// Writes on their way to the store at the same time: while they are written, the next one gathers.
const WRITES_IN_FLIGHT_MAX: usize = 3;
/// When an instant action that was refused is tried again.
const AGAIN_MS: i64 = 250;

/// Runs until every sender is gone and everything is written.
pub async fn run(ctx: Context, dispatcher: Dispatcher, mut inbox: Inbox) {
    let mut writing: FuturesUnordered<BoxFuture<'static, Vec<Recorded>>> = FuturesUnordered::new();
    let mut open = true;
    let rows_max = ctx.store.write_rows_max();
    while open || !writing.is_empty() {
        tokio::select! {
            biased;
            Some(_) = writing.next(), if !writing.is_empty() => {}
            received = inbox.next(rows_max), if open && writing.len() < WRITES_IN_FLIGHT_MAX => match received {
                Some(finished) => {
                    let (ctx, dispatcher) = (ctx.clone(), dispatcher.clone());
                    writing.push(Box::pin(async move { write(&ctx, &dispatcher, finished).await }));
                }
                None => open = false,
            },
        }
    }
}

/// Makes outcomes durable however long the store is away, and dispatches what may start because of them.
pub(crate) async fn write(ctx: &Context, dispatcher: &Dispatcher, finished: Vec<Finished>) -> Vec<Recorded> {
    let settled: Vec<Settled> = finished.into_iter().map(|f| settle(f, ctx.random.next())).collect();
    let completions: Vec<Completion> = settled.iter().map(|settled| settled.completion.clone()).collect();
    let moved = record(ctx, completions).await;
    conclude(ctx, dispatcher, settled, moved).await
}

/// The same once: an error is the caller's. For callers that are answered, and try again by themselves.
pub async fn write_once(ctx: &Context, dispatcher: &Dispatcher, finished: Vec<Finished>) -> Result<Vec<Recorded>> {
    let settled: Vec<Settled> = finished.into_iter().map(|f| settle(f, ctx.random.next())).collect();
    let completions: Vec<Completion> = settled.iter().map(|settled| settled.completion.clone()).collect();
    ctx.metrics.completions.count(completions.len());
    let moved = ctx.store.complete(completions).await?;
    Ok(conclude(ctx, dispatcher, settled, moved).await)
}

/// Counts what was written, and dispatches what may start because of it.
async fn conclude(
    ctx: &Context,
    dispatcher: &Dispatcher,
    settled: Vec<Settled>,
    moved: Verdicts<Applied>,
) -> Vec<Recorded> {
    let mut again = moved.ready;
    let mut next = Vec::new();
    let mut recorded = Vec::with_capacity(settled.len());
    let (mut free, mut pauses) = (Slots::default(), Vec::new());
    for (settled, verdict) in settled.into_iter().zip(moved.verdicts) {
        let Settled { mut dispatch, completion, outcome, pause, slot } = settled;
        free.add(slot);
        let left = if verdict == Applied::Done { Left::Ended(&outcome) } else { Left::Refused };
        next.extend(ctx.gate.done(&dispatch, left, completion.finished_at));
        if let (Some(version), Applied::Done) = (pause, verdict) {
            pauses.push((dispatch.tenant, dispatch.job, version));
        }
        let state = lifecycle::target(completion.event);
        let retries = matches!(completion.event, Event::FailRetryable | Event::Snooze | Event::Release);
        recorded.push(Recorded { verdict, state, next_attempt_at: retries.then_some(completion.wake_at) });
        match (verdict, completion.event) {
            (Applied::Done, Event::Succeed) => ctx.metrics.succeeded.add(1),
            (Applied::Done, Event::FailFinal) => ctx.metrics.dead.add(1),
            (Applied::Done, _) if retries => {
                ctx.metrics.retried.add(u64::from(completion.event != Event::Release));
                again.push(Waiting { dispatch, wake_at: completion.wake_at });
            }
            (Applied::Done, _) => {}
            (Applied::Stale { state }, _) if is_open(&completion, state) => {
                // It was not refused for good: its pool has closed, or the clock went back. It has not run.
                dispatch.attempt = dispatch.attempt.saturating_sub(1);
                let wake_at = completion.finished_at.saturating_add_ms(AGAIN_MS);
                again.push(Waiting { dispatch, wake_at });
            }
            (Applied::Stale { .. } | Applied::Gone, _) => ctx.metrics.stale_refused.add(1),
        }
    }
    drop(free);
    dispatcher.send(again);
    lines::publish(ctx, next).await;
    // Last, because nobody waits for them, and each is a write of its own.
    for (tenant, job, version) in pauses {
        pause_job(ctx, tenant, job, version).await;
    }
    recorded
}

/// Slots that become free together, so that whoever waits for them finds all of them.
#[derive(Default)]
struct Slots(Vec<OwnedSemaphorePermit>);

impl Slots {
    fn add(&mut self, slot: Option<OwnedSemaphorePermit>) {
        let Some(slot) = slot else { return };
        match self.0.iter_mut().find(|other| Arc::ptr_eq(other.semaphore(), slot.semaphore())) {
            Some(other) => other.merge(slot),
            None => self.0.push(slot),
        }
    }
}

/// Whether an instant action that was refused may still run: it was not claimed, and its execution waits as before.
fn is_open(completion: &Completion, state: State) -> bool {
    matches!(completion.of, CompletionOf::Unclaimed(_)) && lifecycle::sources(Event::Claim).contains(state)
}

/// Writes completions; one verdict each. One that the store cannot take must not cost the others theirs.
async fn record(ctx: &Context, completions: Vec<Completion>) -> Verdicts<Applied> {
    let complete = || async {
        match ctx.store.complete(completions.clone()).await {
            Err(error) if error.kind() == Kind::OutcomeUnknown && planted(Bug("unknown_outcome_is_recorded")) => {
                Ok(Verdicts::of(vec![Applied::Done; completions.len()]))
            }
            answer => answer,
        }
    };
    ctx.metrics.completions.count(completions.len());
    match persist(ctx, "complete", complete).await {
        Ok(moved) => return moved,
        Err(error) => tracing::error!(%error, attempts = completions.len(), "outcomes cannot be recorded together"),
    }
    let mut all = Verdicts::default();
    for completion in completions {
        let execution = completion.execution();
        match persist(ctx, "complete", || ctx.store.complete(vec![completion.clone()])).await {
            Ok(moved) => {
                all.verdicts.push(moved.verdicts.first().copied().unwrap_or(Applied::Gone));
                all.ready.extend(moved.ready);
            }
            Err(error) => {
                tracing::error!(%error, %execution, "an outcome cannot be recorded");
                all.verdicts.push(Applied::Gone);
            }
        }
    }
    all
}

/// Pauses a job whose target is gone for good, unless it was changed meanwhile: then that version's target will tell. A
/// crash before this leaves it to the next fire's answer.
async fn pause_job(ctx: &Context, tenant: TenantId, job: JobId, version: u32) {
    let unchanged = Conditions { if_match: Some(version), keyed: None };
    match jobs::set_state(ctx, tenant, &JobKey::Id(job), Change::Pause(None), unchanged).await {
        Ok(_) => tracing::warn!(%job, "the target is gone for good; the job is paused"),
        Err(error) => tracing::info!(%error, %job, "the target is gone, and the job has changed"),
    }
}

/// What an ended attempt means.
struct Settled {
    /// How it is dispatched should there be another attempt.
    dispatch: Dispatch,
    completion: Completion,
    outcome: Outcome,
    /// The version of the job to pause.
    pause: Option<u32>,
    /// Free when the outcome is durable.
    slot: Option<OwnedSemaphorePermit>,
}

fn settle(finished: Finished, seed: u64) -> Settled {
    let Finished { mut dispatch, of, mut outcome, retry, started_at, ended, logs, slot } = finished;
    let settled = lifecycle::settle(&outcome, ended, &retry, seed);
    let mut pause = false;
    let (error, response) = match &mut outcome {
        Outcome::Succeeded { response } => (None, response.take()),
        Outcome::Failed { error, pause_job, response, .. } => {
            pause = *pause_job;
            (Some(error.clone()), response.take())
        }
        Outcome::TimedOut { error } => (Some(error.clone()), None),
        Outcome::Lost | Outcome::Cancelled | Outcome::Snoozed { .. } | Outcome::Released => (None, None),
    };
    dispatch.attempt = settled.attempt;
    dispatch.queued_at = None;
    let completion = Completion {
        of,
        event: settled.event,
        reason: settled.reason,
        outcome: outcome.attempt_outcome(),
        started_at,
        finished_at: ended.finished_at,
        // Should the clock have gone back since it was claimed: nothing starts before its instant.
        wake_at: settled.wake_at.max(dispatch.fire_at),
        attempt: settled.attempt,
        error,
        response,
        logs,
    };
    let pause = pause.then_some(dispatch.job_version);
    Settled { dispatch, completion, outcome, pause, slot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    #[test]
    fn slots_become_free_together() {
        let lanes = [Arc::new(Semaphore::new(3)), Arc::new(Semaphore::new(1))];
        let mut slots = Slots::default();
        for lane in [0, 0, 1, 0] {
            slots.add(lanes[lane].clone().try_acquire_owned().ok());
        }
        slots.add(None);
        assert_eq!(slots.0.len(), 2, "one permit per lane");
        assert_eq!((lanes[0].available_permits(), lanes[1].available_permits()), (0, 0));
        drop(slots);
        assert_eq!((lanes[0].available_permits(), lanes[1].available_permits()), (3, 1));
    }
}
