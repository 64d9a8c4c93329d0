//! A worker's claim that the store has not answered, and that may have happened: what it began is given back, because the worker has
//! not heard of it. On a crash, or a stop, before that, those attempts wait for the end of their leases.

use crate::admit;
use crate::calls::persist;
use crate::complete;
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::outcomes::Finished;
use campanile_model::action::Runner;
use campanile_model::execution::Outcome;
use campanile_model::queue::Dispatch;
use campanile_model::store::{RunningAttempt, RunningQuery};
use campanile_model::{ExecutionId, Timestamp};
use std::sync::Arc;

/// How long after the first look at what came of a claim there is a second one.
const LOOK_AGAIN_MS: u64 = 10_000;

/// Gives back the attempts that a claim at `now` has begun, and the others to the queue. A while later it looks again: the claim may
/// have been on its way, or an attempt may have been asked to stop.
pub(super) async fn find_out(
    ctx: Context,
    dispatcher: Dispatcher,
    worker: Arc<str>,
    sent: Vec<Dispatch>,
    now: Timestamp,
) {
    let begun = take_back(&ctx, &dispatcher, &worker, &sent, now).await;
    let (begun, waiting): (Vec<_>, Vec<_>) = sent.into_iter().partition(|dispatch| begun.contains(&dispatch.execution));
    let ids: Vec<ExecutionId> = begun.iter().map(|dispatch| dispatch.execution).collect();
    if !ids.is_empty()
        && let Err(error) = ctx.queue.ack(Runner::Worker, &ids).await
    {
        tracing::warn!(%error, "cannot acknowledge executions");
    }
    admit::give_up(&ctx, &waiting).await;
    admit::release(&ctx, waiting.clone()).await;
    ctx.clock.sleep_ms(LOOK_AGAIN_MS).await;
    let again: Vec<Dispatch> = begun.into_iter().chain(waiting).collect();
    take_back(&ctx, &dispatcher, &worker, &again, now).await;
}

/// Gives back what a claim at `now` has begun of these, and says what that was. A worker may ask several nodes, and get later what it
/// did not get now: its own attempts are told apart by their number and their start, and what this node knows it to have is its.
async fn take_back(
    ctx: &Context,
    dispatcher: &Dispatcher,
    worker: &Arc<str>,
    sent: &[Dispatch],
    now: Timestamp,
) -> Vec<ExecutionId> {
    let query = RunningQuery::Of(sent.iter().map(|dispatch| dispatch.execution).collect());
    let running = match persist(ctx, "read attempts again", || ctx.store.load_running(&query)).await {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(%error, executions = sent.len(), "attempts that may have begun cannot be read");
            return Vec::new();
        }
    };
    let is_of = |attempt: &RunningAttempt, dispatch: &Dispatch| {
        attempt.fence.execution == dispatch.execution && attempt.fence.attempt == dispatch.attempt + 1
    };
    let ours = running.into_iter().filter(|attempt| {
        let is_begun = attempt.worker == *worker && attempt.started_at == now && !ctx.workers.holds(&attempt.fence);
        is_begun && sent.iter().any(|dispatch| is_of(attempt, dispatch))
    });
    let finished: Vec<Finished> =
        ours.map(|attempt| Finished::of(attempt, Outcome::Released, ctx.clock.now())).collect();
    let begun: Vec<ExecutionId> = finished.iter().map(|finished| finished.dispatch.execution).collect();
    if !finished.is_empty() {
        complete::write(ctx, dispatcher, finished).await;
    }
    begun
}
