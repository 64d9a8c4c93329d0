//! The lines of targets: whoever is called from one, because a place is free, is published.

use crate::context::Context;
use campanile_model::ExecutionId;
use campanile_model::queue::Dispatch;

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

/// An execution was ended in the store: its attempt is stopped, if it is one of this process, and its slots are free.
pub(crate) async fn ended(ctx: &Context, execution: ExecutionId) {
    ctx.running.abort(execution);
    publish(ctx, ctx.gate.forget(execution, ctx.clock.now())).await;
}
