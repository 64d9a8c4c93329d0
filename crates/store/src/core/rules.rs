//! Small rules that every store asks, and that need no database.

use campanile_model::action::NODE_PREFIX;
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::ExecutionId;
use campanile_model::limits;
use campanile_model::notify::{Expectation, WatchKind};
use campanile_model::store::{Extension, Lease, PlannedJob};
use campanile_model::time::Timestamp;

/// Whether the runner of this name is a node: it runs its attempts as long as it lives, and ends those that are taken
/// from it.
pub(crate) fn is_node(worker: Option<&str>) -> bool {
    worker.is_some_and(|worker| worker.starts_with(NODE_PREFIX))
}

/// So many milliseconds later.
pub(crate) fn after(at: Timestamp, ms: u64) -> Timestamp {
    at.saturating_add_ms(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Time limit of an attempt that starts at `now`: its own, or what is left of that of all attempts together.
pub(crate) fn time_limit_ms(own_ms: u64, total_ms: Option<u64>, first_started_at: Timestamp, now: Timestamp) -> u64 {
    let left_ms = total_ms.map(|total| total.saturating_sub(now.ms_since(first_started_at)).max(1));
    left_ms.map_or(own_ms, |left| left.min(own_ms))
}

/// How long the lease of an attempt with this time limit lasts.
pub(crate) fn lease_ms(lease: Lease, timeout_ms: u64) -> u64 {
    match lease {
        Lease::BeyondTimeout(ms) => timeout_ms.saturating_add(ms),
        Lease::Beats(ms) => ms.min(timeout_ms.saturating_add(limits::TIMEOUT_GRACE_MS)),
    }
}

/// Until when an attempt that started then may go on, or why it must stop.
pub(crate) fn prolonged(
    extension: &Extension,
    (started_at, timeout_ms): (Timestamp, u64),
    cancel_requested: Option<Reason>,
) -> Result<Timestamp, Option<Reason>> {
    if let Some(reason) = cancel_requested {
        return Err(Some(reason));
    }
    let end = after(started_at, timeout_ms);
    let last = after(end, limits::TIMEOUT_GRACE_MS);
    // hexpm#1825: rescued by the time since the start, although it lives and says so.
    if planted(Bug("rescued-alive")) {
        return Ok(extension.now);
    }
    if extension.now >= end { Err(None) } else { Ok(extension.lease_until.min(last)) }
}

/// What is watched of an execution: bit n stands for the watch kind with code n. The value of `executions.watched`.
pub(crate) fn watched(expect: &Expectation) -> u8 {
    widths(expect).fold(0, |bits, (kind, _)| bits | 1 << kind.code())
}

/// What must happen within how long after the instant.
pub(crate) fn widths(expect: &Expectation) -> impl Iterator<Item = (WatchKind, u64)> + use<> {
    let widths = [(WatchKind::Start, expect.start_within_ms), (WatchKind::Finish, expect.finish_within_ms)];
    widths.into_iter().filter_map(|(kind, width)| Some((kind, width?)))
}

/// One page of two, in the order of (next_fire_at, id).
pub(crate) fn one_page(mut jobs: Vec<PlannedJob>, owed: Vec<PlannedJob>, limit: usize) -> Vec<PlannedJob> {
    if !owed.is_empty() {
        jobs.extend(owed);
        jobs.sort_by_key(|job| (job.cursor.next_fire_at, job.id));
        jobs.truncate(limit);
    }
    jobs
}

/// Positions of `items` in the order of `key`; equal ones stay in their order.
pub(crate) fn in_order<T>(items: &[T], key: impl Fn(&T) -> ExecutionId) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    if !items.is_sorted_by_key(&key) {
        order.sort_by_key(|&i| key(&items[i]));
    }
    order
}
