//! Step 7, admit: of what was received, what may start now; the rest goes where it belongs. Before: dispatch. After: run.
//!
//! The same for what nodes run and for what external workers ask for. What pools and targets can bear is in `gate`.

use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::gate::{Admitted, Left};
use crate::lines::publish;
use campanile_model::Timestamp;
use campanile_model::action::Runner;
use campanile_model::execution::Reason;
use campanile_model::queue::Dispatch;
use campanile_model::store::{Claimed, Deferral, Waiting};

/// Asks the gate about a batch that was received: those that may be claimed now. The others are put off.
pub(crate) async fn admit(
    ctx: &Context,
    dispatcher: &Dispatcher,
    runner: Runner,
    batch: Vec<Dispatch>,
) -> Vec<Dispatch> {
    let mut admitted = ctx.gate.admit(batch, ctx.clock.now(), || ctx.random.next());
    let go = std::mem::take(&mut admitted.go);
    put_off(ctx, dispatcher, runner, admitted).await;
    go
}

/// Gives back what was received and is not tried now.
pub(crate) async fn release(ctx: &Context, batch: Vec<Dispatch>) {
    if !batch.is_empty()
        && let Err(error) = ctx.queue.release(batch).await
    {
        tracing::warn!(%error, "cannot give executions back; the next start finds them");
    }
}

/// What the gate did not let through: back to the queue, kept in a line, or to be looked at again later with the reason in
/// its row.
async fn put_off(ctx: &Context, dispatcher: &Dispatcher, runner: Runner, admitted: Admitted) {
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

/// None of these could be claimed: their places at the gate are free.
pub(crate) async fn give_up(ctx: &Context, batch: &[Dispatch]) {
    let now = ctx.clock.now();
    let called = batch.iter().filter_map(|dispatch| ctx.gate.done(dispatch, Left::Refused, now)).collect();
    publish(ctx, called).await;
}
