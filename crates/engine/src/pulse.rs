//! The pulse: twice a second one look at what there is to do, and a bell for whoever does it.
//!
//! A node with nothing to do asks the store for nothing else, however many parts it has. What concerns every node (limits,
//! changed jobs) is told to all; what one node does for all is done by the keeper. Everything is decided in the store's
//! transactions, so that two keepers, for a moment, do no harm.

use crate::context::Context;
use crate::fire::stopped;
use crate::{intake, upkeep};
use campanile_model::store::Pulse;
use campanile_model::{Result, Timestamp};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Notify, watch};

/// Bells between the parts of a node, and whether it has begun to fire.
#[derive(Default)]
pub struct Bells {
    /// Job rows were written.
    pub changed: Notify,
    /// Leases of external workers have ended.
    pub expired: Notify,
    /// Operations are at work.
    pub operations: Notify,
    /// Deliveries are due.
    pub deliveries: Notify,
    /// Whether the assigned shards are open and the near fires loaded.
    pub ready: AtomicBool,
}

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
                limited = upkeep::refresh(&ctx).await?;
            }
            if pulse.changes != last.changes {
                bells.changed.notify_one();
            }
            last = pulse;
            if ctx.duty.is_keeper() { keep(&ctx, &bells, pulse, now).await } else { Ok(()) }
        };
        if let Err(error) = looked.await {
            ctx.metrics.store_errors.add(1);
            tracing::warn!(%error, "cannot look at what there is to do; trying again");
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
    if pulse.resumable && intake::resume_due(ctx, now).await? > 0 {
        bells.changed.notify_one();
    }
    if pulse.watches {
        upkeep::watches(ctx, now).await?;
    }
    Ok(())
}
