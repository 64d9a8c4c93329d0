//! Leases: what `core::lease` judges by is locked and read, and what it decides is written. Whose leases are over is in
//! `reads`.

use super::load::{self, LockScope, RowLocks};
use super::progress;
use super::write;
use crate::core::lease;
use crate::core::record::Record;
use campanile_model::store::{Applied, Deferral, Extended, Extension};
use campanile_pg::{Done, Tx};
use futures_util::try_join;

/// Moves the wake-up of waiting executions.
pub(super) async fn defer(tx: &Tx<'_>, deferrals: &[Deferral]) -> Done<Vec<Applied>> {
    let mut set =
        load::load(tx, LockScope::Rows, RowLocks::Now, deferrals.iter().map(|deferral| deferral.execution)).await?;
    let verdicts = lease::defer(&mut set, deferrals)?;
    write::write_set(tx, set).await?;
    Ok(verdicts)
}

/// Prolongs leases, and keeps what attempts report.
pub(super) async fn extend(tx: &Tx<'_>, extensions: &[Extension]) -> Done<Vec<Extended>> {
    let mut set =
        load::load(tx, LockScope::Rows, RowLocks::Now, extensions.iter().map(|extension| extension.execution)).await?;
    let running: Vec<&Record> = set.records().filter(|record| record.runs()).collect();
    let logging = extensions.iter().filter(|extension| !extension.logs.is_empty());
    let versions = running.iter().map(|record| (record.of.job, record.job_version)).collect();
    let (newest, first_starts, reports) = try_join!(
        load::get_newest(tx, &running),
        load::load_first_starts(tx, &running),
        progress::load_reports(tx, logging.map(|extension| extension.execution)),
    )?;
    load::add_newest(tx, &mut set, newest, versions).await?;
    (set.first_starts, set.reports) = (first_starts, reports);
    let verdicts = lease::extend(&mut set, extensions)?;
    write::write_set(tx, set).await?;
    Ok(verdicts)
}
