//! Leases: how long attempts keep their executions, and who asks for more. And waiting executions that are to wait longer.

use super::Result;
use super::record::Shape;
use super::rules::{prolonged, time_limit_ms};
use super::set::WorkingSet;
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::lifecycle::{self, Event};
use campanile_model::store::{Applied, Deferral, Extended, Extension};

/// Moves the wake-up of waiting executions.
pub(crate) fn defer(set: &mut WorkingSet<'_>, deferrals: &[Deferral]) -> Result<Vec<Applied>> {
    let mut verdicts = Vec::with_capacity(deferrals.len());
    for deferral in deferrals {
        let Some(found) = set.get(deferral.execution) else {
            verdicts.push(Applied::Gone);
            continue;
        };
        if !lifecycle::sources(Event::Claim).contains(found.state) || found.attempt != deferral.attempt {
            verdicts.push(Applied::Stale { state: found.state });
            continue;
        }
        let record = set.at(deferral.execution)?;
        (record.wake_at, record.reason) = (deferral.wake_at, Some(deferral.reason));
        record.touch(Shape::Deferred);
        verdicts.push(Applied::Done);
    }
    Ok(verdicts)
}

/// Prolongs leases, and keeps what attempts report. The set has the executions; of those that run, also what
/// they run by, first starts, and how many lines those have that log.
pub(crate) fn extend<'b>(set: &mut WorkingSet<'b>, extensions: &'b [Extension]) -> Result<Vec<Extended>> {
    extensions.iter().map(|extension| prolong(set, extension)).collect()
}

fn prolong<'b>(set: &mut WorkingSet<'b>, extension: &'b Extension) -> Result<Extended> {
    let id = extension.execution;
    let Some(found) = set.get(id) else { return Ok(Extended::Gone) };
    let (Some(started_at), true) = (found.started_at, found.runs()) else {
        return Ok(Extended::Stale { state: found.state });
    };
    let Some(definition) = set.definition(found) else { return Ok(Extended::Gone) };
    let its_own = match extension.fence {
        // Sketch S12: the same name is not the same attempt.
        Some(fence) if !planted(Bug("compared-by-worker-name")) => fence == found.fence,
        _ => *extension.worker == *found.worker.as_deref().unwrap_or_default(),
    };
    if !its_own {
        return Ok(Extended::Stale { state: found.state });
    }
    let first_start = set.first_start(found).unwrap_or(started_at);
    let timeout_ms = time_limit_ms(definition.timeout_ms, definition.retry.total_timeout_ms, first_start, started_at);
    let asked = found.cancel_requested_at.map(|_| found.cancel_reason.unwrap_or(Reason::CancelledByUser));
    let (fence, until) = (found.fence, found.wake_at);
    if let Some(progress) = &extension.progress {
        set.reports.put(id, fence, progress);
    }
    set.reports.log(id, fence, &extension.logs);
    match prolonged(extension, (started_at, timeout_ms), asked) {
        Err(reason) => Ok(Extended::Cancel { until, reason }),
        Ok(wanted) => {
            // A lease never shrinks by this.
            let until = until.max(wanted);
            let record = set.at(id)?;
            if record.wake_at != until {
                record.wake_at = until;
                record.touch(Shape::Deferred);
            }
            Ok(Extended::Until(until))
        }
    }
}
