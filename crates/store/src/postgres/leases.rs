//! Leases: how long attempts keep their executions, and who asks for more. And waiting executions that are told to wait
//! longer. Whose leases are over is in `reads`.

use super::claims::first_starts;
use super::progress::Told;
use super::rows::Columns;
use super::sheet::{Against, Record, Shape, Sheet, job_ids};
use crate::rules::{prolonged, time_limit_ms};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::lifecycle::{self, Event};
use campanile_model::store::{Applied, Deferral, Extended, Extension};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Tx};
use futures_util::try_join;
use std::collections::HashMap;

/// Moves the wake-up of waiting executions.
pub(super) async fn defer(tx: &Tx<'_>, deferrals: &[Deferral]) -> Done<Vec<Applied>> {
    let ids = deferrals.iter().map(|deferral| deferral.execution);
    let mut sheet = Sheet::load(tx, Against::Rows, ids).await?;
    let mut verdicts = Vec::with_capacity(deferrals.len());
    for deferral in deferrals {
        let Some(found) = sheet.get(deferral.execution) else {
            verdicts.push(Applied::Gone);
            continue;
        };
        if !lifecycle::sources(Event::Claim).contains(found.state) || found.attempt != deferral.attempt {
            verdicts.push(Applied::Stale { state: found.state });
            continue;
        }
        let record = sheet.at(deferral.execution)?;
        (record.wake_at, record.reason) = (deferral.wake_at, Some(deferral.reason));
        record.touch(Shape::Deferred);
        verdicts.push(Applied::Done);
    }
    sheet.write(tx).await?;
    Ok(verdicts)
}

/// Prolongs leases, and keeps what attempts tell about themselves.
pub(super) async fn extend(tx: &Tx<'_>, extensions: &[Extension]) -> Done<Vec<Extended>> {
    let ids = extensions.iter().map(|extension| extension.execution);
    let mut sheet = Sheet::load(tx, Against::Rows, ids).await?;
    let running: Vec<&Record> = sheet.records().filter(|record| record.runs()).collect();
    let logging = extensions.iter().filter(|extension| !extension.logs.is_empty());
    let (limits, first_starts, told) = try_join!(
        load_limits(tx, &running),
        first_starts(tx, &running),
        Told::load(tx, logging.map(|extension| extension.execution)),
    )?;
    sheet.told = told;
    let mut verdicts = Vec::with_capacity(extensions.len());
    for extension in extensions {
        verdicts.push(prolong(&mut sheet, extension, &limits, &first_starts)?);
    }
    sheet.write(tx).await?;
    Ok(verdicts)
}

/// The time limits of attempts, by job: of one, and of all together.
type Limits = HashMap<JobId, (u64, Option<u64>)>;

async fn load_limits(tx: &Tx<'_>, running: &[&Record]) -> Done<Limits> {
    let jobs = job_ids(running.iter().map(|record| record.of.job));
    if jobs.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.query(include_str!("sql/attempts/load_limits.sql"), &[&jobs]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.job_id()?, (columns.number()?, columns.number_or_none()?)))
    };
    rows.iter().map(read).collect()
}

fn prolong<'b>(
    sheet: &mut Sheet<'b>,
    extension: &'b Extension,
    limits: &Limits,
    first_starts: &HashMap<ExecutionId, Timestamp>,
) -> Done<Extended> {
    let id = extension.execution;
    let Some(found) = sheet.get(id) else { return Ok(Extended::Gone) };
    let (Some(started_at), true) = (found.started_at, found.runs()) else {
        return Ok(Extended::Stale { state: found.state });
    };
    let Some(&(own_ms, total_ms)) = limits.get(&found.of.job) else { return Ok(Extended::Gone) };
    let its_own = match extension.fence {
        Some(fence) => fence == found.fence,
        None => *extension.worker == *found.worker.as_deref().unwrap_or_default(),
    };
    if !its_own {
        return Ok(Extended::Stale { state: found.state });
    }
    let first_start = match found.attempts_from {
        0 => found.of.first_started_at,
        _ => first_starts.get(&id).copied(),
    };
    let timeout_ms = time_limit_ms(own_ms, total_ms, first_start.unwrap_or(started_at), started_at);
    let asked = found.cancel_requested_at.map(|_| found.cancel_reason.unwrap_or(Reason::CancelledByUser));
    let (fence, until) = (found.fence, found.wake_at);
    if let Some(progress) = &extension.progress {
        sheet.told.put(id, fence, progress);
    }
    sheet.told.log(id, fence, &extension.logs);
    match prolonged(extension, (started_at, timeout_ms), asked) {
        Err(reason) => Ok(Extended::Cancel { until, reason }),
        Ok(wanted) => {
            // A lease never shrinks by this.
            let until = until.max(wanted);
            let record = sheet.at(id)?;
            if record.wake_at != until {
                record.wake_at = until;
                record.touch(Shape::Deferred);
            }
            Ok(Extended::Until(until))
        }
    }
}
