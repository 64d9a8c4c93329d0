//! Step 7, reap: what was lost with its node or its message. Before: everything.
//!
//! An attempt whose lease ended, or whose node is no longer alive, ends as `WORKER_LOST` and is tried again by its policy; its
//! old runner, should it come back, loses by its fence. An execution that is due and in nobody's queue is published
//! again; a duplicate loses its claim. Nothing here decides anything: the guards in the store do.

use crate::complete::Finished;
use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::fire::stopped;
use campanile_model::action::Runner;
use campanile_model::execution::Outcome;
use campanile_model::store::{CompletionOf, WaitingQuery};
use campanile_model::{Result, Timestamp, limits};
use tokio::sync::{mpsc, watch};

/// How often it looks.
const REAP_MS: u64 = 2_000;
/// How long an execution is overdue before its message counts as lost.
const LOST_MS: i64 = 10_000;
/// Pages of overdue executions that one sweep looks through.
const REPUBLISH_PAGES_MAX: usize = 64;
/// Idempotency keys forgotten at once.
const FORGET_MAX: usize = 10_000;

/// Runs until told to stop.
pub async fn run(
    ctx: Context,
    dispatcher: Dispatcher,
    done: mpsc::Sender<Vec<Finished>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut republish_due_ms = 0;
    loop {
        let now = ctx.clock.now();
        let live = vec![ctx.node.to_string()];
        let reaped = async {
            reap_attempts(&ctx, &live, now, &done).await?;
            // At most one sweep per period, so that what is being claimed just now is not published over and over.
            let mono = ctx.clock.monotonic_ms();
            if mono >= republish_due_ms {
                republish_due_ms = mono + LOST_MS as u64;
                republish(&ctx, now, &dispatcher).await?;
            }
            ctx.store.forget_keys(now, FORGET_MAX).await
        };
        if let Err(error) = reaped.await {
            ctx.metrics.store_errors.add(1);
            tracing::warn!(%error, "cannot look for lost work; trying again");
        }
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            () = ctx.clock.sleep_ms(REAP_MS) => {}
        }
    }
}

/// Ends attempts whose runner is gone.
async fn reap_attempts(
    ctx: &Context,
    live_nodes: &[String],
    now: Timestamp,
    done: &mpsc::Sender<Vec<Finished>>,
) -> Result<()> {
    let expired = ctx.store.load_expired(now, live_nodes, limits::WRITE_ITEMS_MAX).await?;
    if expired.is_empty() {
        return Ok(());
    }
    ctx.metrics.lost.add(expired.len() as u64);
    tracing::info!(attempts = expired.len(), "attempts were lost with their node or lease");
    let finished = expired.into_iter().map(|expired| Finished {
        dispatch: expired.dispatch,
        of: CompletionOf::Running(expired.fence),
        outcome: Outcome::Lost,
        retry: expired.retry,
        job_version: None,
        started_at: expired.started_at,
        finished_at: now.max(expired.started_at),
    });
    let _ = done.send(finished.collect()).await;
    Ok(())
}

/// Publishes overdue executions again when none waits in the queue for a node. What is being claimed just now may come
/// twice, and loses its second claim.
async fn republish(ctx: &Context, now: Timestamp, dispatcher: &Dispatcher) -> Result<()> {
    let depth = ctx.queue.depth(Runner::Node).await?;
    if depth.waiting > 0 {
        return Ok(());
    }
    let before = now.saturating_add_ms(-LOST_MS);
    let mut after = None;
    for _ in 0..REPUBLISH_PAGES_MAX {
        let query = WaitingQuery { shards: Vec::new(), before, after, limit: limits::WRITE_ITEMS_MAX };
        let page = ctx.store.load_waiting(&query).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.wake_at, last.dispatch.execution));
        // What waits for an external worker is not lost: it waits until one asks.
        let lost: Vec<_> = page.into_iter().filter(|w| w.dispatch.action.runner() == Runner::Node).collect();
        ctx.metrics.republished.add(lost.len() as u64);
        dispatcher.send(lost);
    }
    Ok(())
}
