//! Step 6, complete: outcomes become states, attempt rows, backoffs and dead letters, many in one transaction. Before: work.
//!
//! `lifecycle::settle` decides between another attempt and the end. What is to be tried again goes back to dispatch
//! with the end of its backoff. A completion that comes too late (cancelled meanwhile, lease lost) is refused by the
//! store and counted. On a crash before the write the attempt is lost with its node, and the reaper tries it again.

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::fire::persist;
use crate::intake::{self, Change};
use campanile_model::execution::Outcome;
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, Event};
use campanile_model::queue::Dispatch;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Applied, AttemptFence, Claim, Completion, CompletionOf, JobKey, Waiting};
use campanile_model::{Timestamp, limits};
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
    /// The version of the job whose definition it ran by; `None` where nobody knows.
    pub job_version: Option<u32>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// Writes on their way to the store at the same time.
const WRITES_IN_FLIGHT_MAX: usize = 3;

/// Runs until every sender is gone and everything is written.
pub async fn run(ctx: Context, dispatcher: Dispatcher, mut inbox: mpsc::Receiver<Vec<Finished>>) {
    let mut writing: FuturesUnordered<BoxFuture<'static, Vec<Waiting>>> = FuturesUnordered::new();
    let mut batches = Vec::new();
    let mut open = true;
    while open || !writing.is_empty() {
        tokio::select! {
            biased;
            Some(again) = writing.next(), if !writing.is_empty() => dispatcher.send(again),
            received = inbox.recv_many(&mut batches, 64), if open && writing.len() < WRITES_IN_FLIGHT_MAX => {
                open = received > 0;
            }
        }
        if !batches.is_empty() {
            let finished: Vec<Finished> = batches.drain(..).flatten().collect();
            writing.push(Box::pin(write(ctx.clone(), finished)));
        }
    }
}

/// Makes outcomes durable. Returns what is to be tried again.
async fn write(ctx: Context, finished: Vec<Finished>) -> Vec<Waiting> {
    let settled: Vec<Settled> = finished.into_iter().map(|f| settle(f, ctx.random.next())).collect();
    let completions: Vec<Completion> = settled.iter().map(|settled| settled.completion.clone()).collect();
    let mut again = Vec::new();
    for (settled, verdict) in settled.into_iter().zip(record(&ctx, completions).await) {
        let Settled { dispatch, completion, pause } = settled;
        if let (Some(version), Applied::Done) = (pause, verdict) {
            pause_job(&ctx, &dispatch, version).await;
        }
        match (verdict, completion.event) {
            (Applied::Done, Event::Succeed) => ctx.metrics.succeeded.add(1),
            (Applied::Done, Event::FailFinal) => ctx.metrics.dead.add(1),
            (Applied::Done, Event::FailRetryable | Event::Snooze) => {
                ctx.metrics.retried.add(1);
                again.push(Waiting { dispatch, wake_at: completion.wake_at });
            }
            (Applied::Done, _) => {}
            (Applied::Stale { .. } | Applied::Gone, _) => ctx.metrics.stale_refused.add(1),
        }
    }
    again
}

/// Writes completions; one verdict each. One that the store cannot take must not cost the others theirs.
async fn record(ctx: &Context, completions: Vec<Completion>) -> Vec<Applied> {
    match persist(ctx, "complete", || ctx.store.complete(completions.clone())).await {
        Ok(verdicts) => return verdicts,
        Err(error) => tracing::error!(%error, attempts = completions.len(), "outcomes cannot be recorded together"),
    }
    let mut verdicts = Vec::with_capacity(completions.len());
    for completion in completions {
        let execution = completion.execution();
        let alone = persist(ctx, "complete", || ctx.store.complete(vec![completion.clone()])).await;
        verdicts.push(match alone {
            Ok(verdict) => verdict.first().copied().unwrap_or(Applied::Gone),
            Err(error) => {
                tracing::error!(%error, %execution, "an outcome cannot be recorded");
                Applied::Gone
            }
        });
    }
    verdicts
}

/// Pauses a job whose target is gone for good, unless it was changed meanwhile: then that version's target will tell. A
/// crash before this leaves it to the next fire's answer.
async fn pause_job(ctx: &Context, dispatch: &Dispatch, version: u32) {
    let change = Change { if_match: Some(version), keyed: None };
    match intake::set_state(ctx, dispatch.tenant, &JobKey::Id(dispatch.job), JobState::Paused, change).await {
        Ok(_) => tracing::warn!(job = %dispatch.job, "the target is gone for good; the job is paused"),
        Err(error) => tracing::info!(%error, job = %dispatch.job, "the target is gone, and the job has changed"),
    }
}

/// What an ended attempt means.
struct Settled {
    /// How it is dispatched should there be another attempt.
    dispatch: Dispatch,
    completion: Completion,
    /// The version of the job to pause.
    pause: Option<u32>,
}

fn settle(finished: Finished, seed: u64) -> Settled {
    let Finished { mut dispatch, of, outcome, retry, job_version, started_at, finished_at } = finished;
    let attempt = match &of {
        CompletionOf::Running(AttemptFence { attempt, .. }) => *attempt,
        CompletionOf::Unclaimed(Claim { attempt, .. }) => attempt + 1,
    };
    let (event, reason) = lifecycle::settle(&outcome, attempt, &retry);
    let kind = outcome.attempt_outcome();
    let backoff_ms = retry.delay_ms(attempt, seed);
    let (error, response, wait_ms, pause_job) = match outcome {
        Outcome::Succeeded { response } => (None, response, 0, false),
        Outcome::Failed { error, retry_after_ms, pause_job, response, .. } => {
            // The target's wish may lengthen the wait, never shorten it.
            (Some(error), response, backoff_ms.max(retry_after_ms.unwrap_or(0)), pause_job)
        }
        Outcome::TimedOut { error } => (Some(error), None, backoff_ms, false),
        Outcome::Lost | Outcome::Cancelled => (None, None, backoff_ms, false),
        Outcome::Snoozed { for_ms } => (None, None, for_ms, false),
    };
    // A snooze burns no attempt.
    dispatch.attempt = if event == Event::Snooze { attempt - 1 } else { attempt };
    let wake_at = finished_at.saturating_add_ms(wait_ms.min(limits::BACKOFF_MS_MAX) as i64);
    let completion = Completion { of, event, reason, outcome: kind, started_at, finished_at, wake_at, error, response };
    Settled { dispatch, completion, pause: job_version.filter(|_| pause_job) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::action::ActionKind;
    use campanile_model::execution::AttemptError;
    use campanile_model::job::Priority;
    use campanile_model::retry::Backoff;
    use campanile_model::{ExecutionId, JobId, TenantId};

    fn check(outcome: Outcome, attempt: u32) -> (u32, Event, i64) {
        let job = JobId::from_bytes([1; 16]);
        let fire_at = Timestamp::from_millis(1_000);
        let execution = ExecutionId::scheduled(TenantId::DEFAULT, job, fire_at);
        let dispatch = Dispatch {
            execution,
            job,
            fire_at,
            pool: "short".into(),
            tenant: TenantId::DEFAULT,
            job_version: 1,
            attempt: attempt - 1,
            priority: Priority::Normal,
            action: ActionKind::Webhook,
        };
        let retry =
            RetryPolicy { max_attempts: 3, backoff: Backoff::Exponential, initial_delay_ms: 100, max_delay_ms: 1_000 };
        let of = CompletionOf::Running(AttemptFence { execution, attempt, fence: 9 });
        let at = Timestamp::from_millis(2_000);
        let finished = Finished { dispatch, of, outcome, retry, job_version: None, started_at: at, finished_at: at };
        let Settled { dispatch, completion, .. } = settle(finished, 0);
        (dispatch.attempt, completion.event, completion.wake_at.millis() - 2_000)
    }

    fn failed(retry_after_ms: Option<u64>) -> Outcome {
        let error = AttemptError { kind: "http_503".into(), message: String::new() };
        Outcome::Failed { error, retryable: true, retry_after_ms, pause_job: false, response: None }
    }

    #[test]
    fn backoff_grows_and_then_the_execution_is_dead() {
        assert_eq!(check(failed(None), 1), (1, Event::FailRetryable, 100));
        assert_eq!(check(failed(None), 2), (2, Event::FailRetryable, 200));
        assert_eq!(check(failed(None), 3).1, Event::FailFinal);
    }

    #[test]
    fn retry_after_lengthens_the_wait_and_never_shortens_it() {
        assert_eq!(check(failed(Some(5_000)), 1).2, 5_000);
        assert_eq!(check(failed(Some(1)), 1).2, 100);
        assert_eq!(check(failed(Some(u64::MAX)), 1).2, limits::BACKOFF_MS_MAX as i64);
    }

    #[test]
    fn a_snooze_burns_no_attempt() {
        assert_eq!(check(Outcome::Snoozed { for_ms: 7 }, 2), (1, Event::Snooze, 7));
    }
}
