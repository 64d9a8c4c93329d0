//! Step 10, reap: what was lost with its runner or its message. Before: everything.
//!
//! An attempt whose lease ended, or whose node is no longer alive, ends as `WORKER_LOST` (`TIMED_OUT` where its time was up,
//! `CANCELLED` where it had been asked to stop) and is tried again by its policy; its old runner, should it come back,
//! loses by its fence. An execution that is due and in nobody's queue is published again; a duplicate loses its
//! claim. Nothing here decides anything: the guards in the store do.

use crate::bells::Bells;
use crate::calls::{self, stopped};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::outcomes::{Finished, Outcomes};
use campanile_model::action::Runner;
use campanile_model::execution::{AttemptError, Outcome};
use campanile_model::fault::{Bug, planted};
use campanile_model::store::{RunningAttempt, RunningQuery, WaitingQuery};
use campanile_model::{ExecutionId, Result, Timestamp, limits};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;

/// How often it looks at the clock, for jumps.
const LOOK_MS: u64 = 500;
/// How often it looks for attempts of nodes that have ended, beside when one has.
const ORPHANS_MS: u64 = 10_000;
/// How long an execution is overdue before its message counts as lost: in a queue that goes with its process, and in one that
/// other nodes share, who may have received it and be busy with it.
const LOST_MS: (u64, u64) = (10_000, 20_000);
/// Pages of overdue executions that one sweep looks through.
const REPUBLISH_PAGES_MAX: usize = 64;

/// Runs until told to stop.
pub async fn run(
    ctx: Context,
    dispatcher: Dispatcher,
    done: Outcomes,
    bells: Arc<Bells>,
    mut stop: watch::Receiver<bool>,
) {
    let (mut orphans_due_ms, mut republish_due_ms) = (0, 0);
    let mut watch = Watch::new(&ctx);
    let mut position = None;
    let mut expired = false;
    loop {
        let now = ctx.clock.now();
        let mono = ctx.clock.monotonic_ms();
        let leases_count = watch.look(now, mono, ctx.lease_ms);
        let keeper = ctx.duty.is_keeper();
        let reaped = async {
            // river#1258: there is a rescuer, and it does not come by.
            if expired && leases_count && keeper && !planted(Bug("rescuer-that-never-comes")) {
                let query = RunningQuery::Expired { now, limit: limits::WRITE_ITEMS_MAX };
                end(&ctx, ctx.store.load_running(&query).await?, now, &done).await;
            }
            if mono >= orphans_due_ms && keeper && !planted(Bug("orphans_not_reaped")) {
                orphans_due_ms = mono + ORPHANS_MS;
                if reap_orphans(&ctx, now, &done).await? >= limits::WRITE_ITEMS_MAX {
                    orphans_due_ms = mono;
                }
            }
            // At most one sweep per period, so that what is being claimed just now is not published over and over.
            if mono >= republish_due_ms && !planted(Bug("lost_not_republished")) {
                republish_due_ms = mono + LOST_MS.0;
                position = republish(&ctx, now, position, &dispatcher).await?;
            }
            Ok::<(), campanile_model::Error>(())
        };
        if let Err(error) = reaped.await {
            calls::failed(&ctx, "look for lost work", &error);
        }
        expired = false;
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            () = bells.expired.notified() => expired = true,
            () = ctx.duty.others.notified() => orphans_due_ms = 0,
            () = ctx.clock.sleep_ms(LOOK_MS) => {}
        }
    }
}

/// Ends the attempts of nodes that are gone; says how many.
async fn reap_orphans(ctx: &Context, now: Timestamp, done: &Outcomes) -> Result<usize> {
    let query = RunningQuery::Orphans { live_nodes: ctx.duty.live_nodes(), limit: limits::WRITE_ITEMS_MAX };
    let mut orphans = ctx.store.load_running(&query).await?;
    if !orphans.is_empty() {
        // Asked after the attempts were read: a node that joined and claimed meanwhile is among them.
        let live: HashSet<String> = ctx.coordinator.members().await?.into_iter().map(|member| member.node).collect();
        orphans.retain(|attempt| !live.contains(&*attempt.worker));
    }
    let found = orphans.len();
    end(ctx, orphans, now, done).await;
    Ok(found)
}

/// Whether the ends of leases mean anything. A worker could not prolong its leases while we were not there, or asleep; it gets
/// the time of one lease to do so.
struct Watch {
    wall: Timestamp,
    mono: u64,
    counts_from_mono: u64,
}

/// A jump of the wall clock beyond this means that time passed without us, or that it was set.
const JUMP_MS: u64 = 2_000;

impl Watch {
    fn new(ctx: &Context) -> Self {
        let mono = ctx.clock.monotonic_ms();
        Self { wall: ctx.clock.now(), mono, counts_from_mono: mono + ctx.lease_ms }
    }

    fn look(&mut self, wall: Timestamp, mono: u64, lease_ms: u64) -> bool {
        let (passed_wall, passed_mono) = (wall.millis() - self.wall.millis(), (mono - self.mono) as i64);
        // etcd#12291: leases end by the wall clock, whatever was done to it.
        if passed_wall.abs_diff(passed_mono) > JUMP_MS && !planted(Bug("lease-by-the-wall-clock")) {
            self.counts_from_mono = mono + lease_ms;
        }
        (self.wall, self.mono) = (wall, mono);
        mono >= self.counts_from_mono
    }
}

/// Ends attempts whose runner is gone.
async fn end(ctx: &Context, gone: Vec<RunningAttempt>, now: Timestamp, done: &Outcomes) {
    if gone.is_empty() {
        return;
    }
    ctx.metrics.lost.add(gone.len() as u64);
    tracing::info!(attempts = gone.len(), "attempts were lost with their node or lease");
    let finished = gone.into_iter().map(|attempt| {
        let outcome = lost(&attempt, now);
        Finished::of(attempt, outcome, now)
    });
    done.send(finished.collect()).await;
}

/// How an attempt ended that nobody runs any more.
fn lost(attempt: &RunningAttempt, now: Timestamp) -> Outcome {
    if attempt.cancel_requested.is_some() {
        return Outcome::Cancelled;
    }
    if now.ms_since(attempt.started_at) < attempt.timeout_ms {
        return Outcome::Lost;
    }
    let message = format!("it did not end within {} ms", attempt.timeout_ms);
    Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message } }
}

/// Publishes overdue executions again that are in nobody's queue: all of those of pools in which none waits, and of the other
/// pools those that the queue does not have. What is being claimed just now may come twice, and loses its second claim. Goes
/// on where the last sweep stopped.
async fn republish(
    ctx: &Context,
    now: Timestamp,
    position: Option<(Timestamp, ExecutionId)>,
    dispatcher: &Dispatcher,
) -> Result<Option<(Timestamp, ExecutionId)>> {
    let shards = ctx.duty.shards();
    if shards.is_empty() {
        return Ok(None);
    }
    let depths = ctx.queue.pools().await?;
    let queued: HashSet<(Arc<str>, Runner)> = depths.into_iter().map(|depth| (depth.pool, depth.runner)).collect();
    let lost_ms = if ctx.queue.outlives() { LOST_MS.1 } else { LOST_MS.0 };
    let before = now.saturating_add_ms(-(lost_ms as i64));
    let mut after = position;
    let mut suspects = Vec::new();
    for _ in 0..REPUBLISH_PAGES_MAX {
        let query = WaitingQuery {
            shards: shards.to_vec(),
            before,
            fired_until: Timestamp::MAX,
            after,
            limit: limits::WRITE_ITEMS_MAX,
        };
        let page = ctx.store.load_waiting(&query).await?;
        after = page.last().map(|last| (last.wake_at, last.dispatch.execution));
        if after.is_none() {
            break;
        }
        let mut lost = page;
        lost.retain(|waiting| !ctx.gate.holds(&waiting.dispatch));
        suspects.extend(lost.extract_if(.., |waiting| {
            queued.contains(&(waiting.dispatch.pool.clone(), waiting.dispatch.action.runner()))
        }));
        ctx.metrics.republished.add(lost.len() as u64);
        dispatcher.send(lost);
    }
    if !suspects.is_empty() {
        let ids: Vec<ExecutionId> = suspects.iter().map(|waiting| waiting.dispatch.execution).collect();
        let missing: HashSet<ExecutionId> = ctx.queue.missing(&ids).await?.into_iter().collect();
        suspects.retain(|waiting| missing.contains(&waiting.dispatch.execution));
        ctx.metrics.republished.add(suspects.len() as u64);
        dispatcher.send(suspects);
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_do_not_end_while_nobody_could_prolong_them() {
        let at = |ms: i64| Timestamp::from_millis(ms);
        let mut watch = Watch { wall: at(0), mono: 0, counts_from_mono: 30_000 };
        assert!(!watch.look(at(500), 500, 30_000), "just started");
        assert!(!watch.look(at(29_999), 29_999, 30_000));
        assert!(watch.look(at(30_000), 30_000, 30_000));
        assert!(!watch.look(at(3_600_000), 30_500, 30_000), "a laptop that slept");
        assert!(watch.look(at(3_630_000), 60_500, 30_000));
        assert!(!watch.look(at(0), 61_000, 30_000), "a clock that was set back");
    }
}
