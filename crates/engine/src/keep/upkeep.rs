//! What must be done now and then, in a loop of its own because it may take long: what is old is deleted, and counters are compared
//! with the rows. Everything is decided in the store's transactions, so that it does no harm when two nodes do it side by side.

use crate::calls::{self, stopped};
use crate::context::Context;
use campanile_model::store::Retention;
use campanile_model::{Result, Timestamp, limits};
use tokio::sync::watch;

/// Executions deleted by one transaction: short, so that nobody waits for it.
const PRUNE_MAX: usize = 500;
/// How long a transaction of fires may wait between two of those.
const PRUNE_PAUSE_MS: u64 = 20;
/// How often there is a look at what is old and at what is to be folded; and where the last look found nothing and nothing has
/// happened here since.
const PRUNE_MS: (u64, u64) = (20_000, 60_000);
/// How often the counters are compared with the rows.
const RECONCILE_MS: u64 = 24 * 3_600_000;

/// Deletes what is old, and compares counters with rows, until told to stop.
pub async fn run_slow(ctx: Context, mut stop: watch::Receiver<bool>) {
    let mut reconcile_due_ms = ctx.clock.monotonic_ms() + RECONCILE_MS;
    let (mut wait_ms, mut happened) = (PRUNE_MS.0, 0);
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            () = ctx.clock.sleep_ms(wait_ms) => {}
        }
        if !ctx.duty.is_keeper() {
            continue;
        }
        let mono = ctx.clock.monotonic_ms();
        let done = async {
            let pruned = prune(&ctx, ctx.clock.now(), &stop).await?;
            let until_now = ctx.metrics.fired.get() + ctx.metrics.started.get();
            let quiet = pruned == 0 && until_now == happened;
            (wait_ms, happened) = (if quiet { PRUNE_MS.1 } else { PRUNE_MS.0 }, until_now);
            if mono >= reconcile_due_ms {
                reconcile_due_ms = mono + RECONCILE_MS;
                reconcile(&ctx).await?;
            }
            Ok::<(), campanile_model::Error>(())
        };
        if let Err(error) = done.await {
            calls::failed(&ctx, "delete what is old", &error);
        }
    }
}

/// Deletes what is too old, a little at a time, until there is none. Says how many executions that were.
async fn prune(ctx: &Context, now: Timestamp, stop: &watch::Receiver<bool>) -> Result<usize> {
    let mut executions = 0;
    while !*stop.borrow() {
        let pruned = ctx.store.prune(&ctx.retention, now, PRUNE_MAX).await?;
        ctx.metrics.pruned.add(pruned.executions as u64);
        executions += pruned.executions;
        if !pruned.more {
            break;
        }
        ctx.clock.sleep_ms(PRUNE_PAUSE_MS).await;
    }
    Ok(executions)
}

/// Compares the counters with the rows.
pub async fn reconcile(ctx: &Context) -> Result<u64> {
    let drift = ctx.store.reconcile().await?;
    ctx.metrics.drifted.add(drift);
    if drift > 0 {
        tracing::error!(drift, "the counters had drifted from the rows, and are corrected; this is a bug");
    }
    Ok(drift)
}

/// What is kept where nobody says otherwise.
pub fn retention() -> Retention {
    use campanile_model::lifecycle::State;
    use campanile_model::store::Keep;
    const DAY_MS: u64 = 24 * 3_600_000;
    let keep = |state, days: u64| Keep { state, age_ms: Some(days * DAY_MS), count: Some(limits::KEPT_MAX) };
    Retention {
        states: vec![
            keep(State::Succeeded, 7),
            keep(State::Cancelled, 30),
            keep(State::Skipped, 30),
            keep(State::Dead, 90),
        ],
        rollups_ms: 2 * DAY_MS,
        deliveries_ms: 7 * DAY_MS,
        skips_ms: 90 * DAY_MS,
        versions_ms: 90 * DAY_MS,
    }
}
