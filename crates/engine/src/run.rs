//! Step 8, run: claim, and do what the job says. Before: admit. After: complete.
//!
//! Here by the node itself, or by an external worker that asks over HTTP.

pub mod node;
pub mod pull;

use crate::context::Context;
use crate::lines;
use campanile_model::queue::Dispatch;
use campanile_model::store::Granted;
use campanile_model::{Timestamp, limits};

/// Stops the attempt that a new run has taken the place of, if it runs in this process.
pub(crate) async fn terminated(ctx: &Context, granted: &Granted) {
    if let Some(other) = granted.terminated {
        lines::ended(ctx, other).await;
    }
}

/// Counts how late a first start is. What was not released about when it was due was caught up, filled in or put off: that is
/// no lateness of ours.
pub(crate) fn count_lateness(ctx: &Context, dispatch: &Dispatch, started_at: Timestamp) {
    let punctual = |queued_at: Timestamp| queued_at.ms_since(dispatch.fire_at) <= limits::MISFIRE_GRACE_MS;
    if dispatch.queued_at.is_none_or(punctual) {
        ctx.metrics.lateness_ms.record(started_at.ms_since(dispatch.fire_at));
    }
}
