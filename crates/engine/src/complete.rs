//! Step 6, complete: outcomes become states, attempt rows, backoffs and dead letters, many in one transaction. Before: work.
//!
//! `lifecycle::settle` decides between another attempt and the end. What is to be tried again goes back to dispatch
//! with the end of its backoff; so does who waited for a run of its job to end. A completion that comes too late
//! (cancelled meanwhile, lease lost) is refused by the store and counted. On a crash before the write the attempt is
//! lost with its node, and the reaper tries it again.

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::fire::persist;
use crate::gate::Left;
use crate::intake::{self, Conditions};
use crate::worker;
use campanile_model::execution::{LogLine, Outcome};
use campanile_model::fault::{Bug, planted};
use campanile_model::job::version::Change;
use campanile_model::lifecycle::{self, Ended, Event, State};
use campanile_model::queue::Dispatch;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Applied, Completion, CompletionOf, JobKey, RunningAttempt, Verdicts, Waiting};
use campanile_model::{Kind, Result, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

/// An attempt that ended.
pub struct Finished {
    /// What was dispatched.
    pub dispatch: Dispatch,
    /// The right to end it.
    pub of: CompletionOf,
    /// What came back.
    pub outcome: Outcome,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// When it started.
    pub started_at: Timestamp,
    /// What else there is to know about it.
    pub ended: Ended,
    /// What it logged at last.
    pub logs: Vec<LogLine>,
}

impl Finished {
    /// The end of an attempt as the store knows it.
    pub fn of(attempt: RunningAttempt, outcome: Outcome, finished_at: Timestamp) -> Self {
        let ended = Ended {
            attempt: attempt.fence.attempt,
            attempts_from: attempt.attempts_from,
            // Sketch S14, pipeshub#3037: the count travels with the message, which a crash delivers again as it was.
            losses: if planted(Bug("deliveries-in-the-message")) { 0 } else { attempt.losses },
            first_started_at: attempt.first_started_at,
            finished_at: finished_at.max(attempt.started_at),
            cancel_requested: attempt.cancel_requested.map(|(_, reason)| reason),
        };
        Self {
            dispatch: attempt.dispatch,
            of: CompletionOf::Running(attempt.fence),
            outcome,
            retry: attempt.retry,
            started_at: attempt.started_at,
            ended,
            logs: Vec::new(),
        }
    }
}

/// What became of a completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The store's verdict.
    pub verdict: Applied,
    /// The state that the execution is in if it was done.
    pub state: State,
    /// When the next attempt may start, if there is one.
    pub next_attempt_at: Option<Timestamp>,
}

/// Writes on their way to the store at the same time.
const WRITES_IN_FLIGHT_MAX: usize = 3;
/// Outcomes in one write, but for those of its last batch.
const WRITE_MAX: usize = 4_096;
/// When an instant action that was refused is tried again.
const AGAIN_MS: i64 = 250;

/// Runs until every sender is gone and everything is written.
pub async fn run(ctx: Context, dispatcher: Dispatcher, mut inbox: mpsc::Receiver<Vec<Finished>>) {
    let mut writing: FuturesUnordered<BoxFuture<'static, Vec<Recorded>>> = FuturesUnordered::new();
    let mut open = true;
    while open || !writing.is_empty() {
        let mut finished = Vec::new();
        tokio::select! {
            biased;
            Some(_) = writing.next(), if !writing.is_empty() => {}
            received = inbox.recv(), if open && writing.len() < WRITES_IN_FLIGHT_MAX => match received {
                Some(batch) => finished = batch,
                None => open = false,
            },
        }
        // What else is there goes along, within bounds: what is received and not yet written looks lost to others.
        while !finished.is_empty() && finished.len() < WRITE_MAX {
            let Ok(more) = inbox.try_recv() else { break };
            finished.extend(more);
        }
        if !finished.is_empty() {
            let (ctx, dispatcher) = (ctx.clone(), dispatcher.clone());
            writing.push(Box::pin(async move { write(&ctx, &dispatcher, finished).await }));
        }
    }
}

/// Makes outcomes durable however long the store is away, and dispatches what may start because of them.
async fn write(ctx: &Context, dispatcher: &Dispatcher, finished: Vec<Finished>) -> Vec<Recorded> {
    let settled: Vec<Settled> = finished.into_iter().map(|f| settle(f, ctx.random.next())).collect();
    let completions: Vec<Completion> = settled.iter().map(|settled| settled.completion.clone()).collect();
    let moved = record(ctx, completions).await;
    conclude(ctx, dispatcher, settled, moved).await
}

/// The same once: an error is the caller's. For callers that are answered, and try again by themselves.
pub async fn write_once(ctx: &Context, dispatcher: &Dispatcher, finished: Vec<Finished>) -> Result<Vec<Recorded>> {
    let settled: Vec<Settled> = finished.into_iter().map(|f| settle(f, ctx.random.next())).collect();
    let completions: Vec<Completion> = settled.iter().map(|settled| settled.completion.clone()).collect();
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
    for (settled, verdict) in settled.into_iter().zip(moved.verdicts) {
        let Settled { mut dispatch, completion, outcome, pause } = settled;
        let left = if verdict == Applied::Done { Left::Ended(&outcome) } else { Left::Refused };
        next.extend(ctx.gate.done(&dispatch, left, completion.finished_at));
        if let (Some(version), Applied::Done) = (pause, verdict) {
            pause_job(ctx, &dispatch, version).await;
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
    dispatcher.send(again);
    worker::publish(ctx, next).await;
    recorded
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
async fn pause_job(ctx: &Context, dispatch: &Dispatch, version: u32) {
    let unchanged = Conditions { if_match: Some(version), keyed: None };
    let key = JobKey::Id(dispatch.job);
    match intake::set_state(ctx, dispatch.tenant, &key, Change::Pause(None), unchanged).await {
        Ok(_) => tracing::warn!(job = %dispatch.job, "the target is gone for good; the job is paused"),
        Err(error) => tracing::info!(%error, job = %dispatch.job, "the target is gone, and the job has changed"),
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
}

fn settle(finished: Finished, seed: u64) -> Settled {
    let Finished { mut dispatch, of, mut outcome, retry, started_at, ended, logs } = finished;
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
    Settled { dispatch, completion, outcome, pause }
}
