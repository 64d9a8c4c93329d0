//! Step 11, keep: what must be done for all, by the pulse. Twice a second there is one look at what there is to do, and a bell for
//! whoever does it.
//!
//! A node with nothing to do asks the store for nothing else, however many parts it has. What concerns every node (limits,
//! changed jobs) is told to all; what one node does for all is done by the keeper. Everything is decided in the store's
//! transactions, so that two keepers, for a moment, do no harm.

/// What limits pools and targets.
pub mod limits;
/// Jobs whose next fire a new zone database moves.
pub mod rezone;
/// What is old, and whether the counters are right.
pub mod upkeep;

use crate::bells::Bells;
use crate::calls::{self, stopped};
use crate::context::Context;
use crate::jobs;
use campanile_model::job::version::Change;
use campanile_model::store::{JobQuery, Pulse};
use campanile_model::{Result, Timestamp};
use std::sync::Arc;
use tokio::sync::watch;

/// Watches ended at once.
const WATCHES_MAX: usize = 1_000;
/// How often there is a look.
const LOOK_MS: u64 = 500;

/// Looks until told to stop.
pub async fn run(ctx: Context, bells: Arc<Bells>, mut stop: watch::Receiver<bool>) {
    let mut last = Pulse::default();
    // The first look takes them in, whatever the number.
    let mut limited = true;
    loop {
        let now = ctx.clock.now();
        let looked = async {
            let pulse = ctx.store.pulse(now).await?;
            if pulse.limits != last.limits || limited {
                // Where there are limits, what runs against them is looked at again every time.
                limited = limits::refresh(&ctx).await?;
            }
            if pulse.changes != last.changes {
                bells.changed.notify_one();
            }
            last = pulse;
            if ctx.duty.is_keeper() { keep(&ctx, &bells, pulse, now).await } else { Ok(()) }
        };
        match looked.await {
            Ok(()) => calls::answered(&ctx),
            Err(error) => calls::failed(&ctx, "look at what there is to do", &error),
        }
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            () = ctx.clock.sleep_ms(LOOK_MS) => {}
        }
    }
}

/// What one node does for all.
async fn keep(ctx: &Context, bells: &Bells, pulse: Pulse, now: Timestamp) -> Result<()> {
    if pulse.expired {
        bells.expired.notify_one();
    }
    if pulse.operations {
        bells.operations.notify_one();
    }
    if pulse.deliveries {
        bells.deliveries.notify_one();
    }
    if pulse.resumable && resume_due(ctx, now).await? > 0 {
        bells.changed.notify_one();
    }
    if pulse.watches {
        break_watches(ctx, now).await?;
    }
    Ok(())
}

/// Resumes jobs whose pause is over. Their fires go on from the end of the pause, not from when somebody noticed it.
async fn resume_due(ctx: &Context, now: Timestamp) -> Result<usize> {
    let query =
        JobQuery { pause_ends_by: Some(now), limit: campanile_model::limits::BATCH_JOBS_MAX, ..JobQuery::default() };
    let due = ctx.store.list_jobs(&query).await?.items;
    for job in &due {
        match jobs::put(ctx, job, Change::EndPause, Some(job.version), None).await {
            Ok(_) => tracing::info!(job = %job.id, "the pause is over"),
            // Somebody changed it meanwhile; if it is still due, the next look finds it.
            Err(error) => tracing::info!(%error, job = %job.id, "a pause could not be ended"),
        }
    }
    Ok(due.len())
}

/// Ends watches whose instant has come.
async fn break_watches(ctx: &Context, now: Timestamp) -> Result<()> {
    loop {
        let broken = ctx.store.break_watches(now, WATCHES_MAX).await?;
        ctx.metrics.late.add(broken.len() as u64);
        for broken in &broken {
            tracing::warn!(job = %broken.job, expectation = broken.kind.as_str(), due_at = %broken.due_at, "late");
        }
        if broken.len() < WATCHES_MAX {
            return Ok(());
        }
    }
}
