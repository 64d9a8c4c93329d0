//! What attempts report about themselves, as it is written: progress, checkpoints, logs. How it is read is in `reads`.

use super::load::Ids;
use super::rows::{Columns, storable};
use super::write::column;
use crate::core::reports::Reports;
use campanile_model::execution::Progress;
use campanile_model::ids::ExecutionId;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads how many lines executions have that will log.
pub(super) async fn load_reports<'b>(tx: &Tx<'_>, logging: impl IntoIterator<Item = ExecutionId>) -> Done<Reports<'b>> {
    let mut reports = Reports::default();
    let Some(ids) = Ids::of(logging) else { return Ok(reports) };
    for row in tx.query(include_str!("sql/logs/last.sql"), &[&ids.all, &ids.first, &ids.last]).await? {
        let mut columns = Columns::of(&row);
        reports.lines.insert(columns.execution_id()?, columns.next()?);
    }
    Ok(reports)
}

/// Writes what was reported.
pub(super) async fn write(tx: &Tx<'_>, reports: &Reports<'_>) -> Done<()> {
    try_join!(write_progress(tx, reports), write_logs(tx, reports))?;
    Ok(())
}

async fn write_progress(tx: &Tx<'_>, reports: &Reports<'_>) -> Done<()> {
    if reports.progress.is_empty() {
        return Ok(());
    }
    let told: Vec<(&ExecutionId, &(u64, Progress))> = reports.progress.iter().collect();
    tx.execute(
        include_str!("sql/progress/put.sql"),
        &[
            &column(&told, |(id, _)| Uuid::from(**id)),
            &column(&told, |(_, (fence, _))| *fence as i64),
            &column(&told, |(_, (_, progress))| progress.fraction),
            &column(&told, |(_, (_, progress))| progress.message.as_deref().map(storable)),
            &column(&told, |(_, (_, progress))| progress.checkpoint.as_deref().map(storable)),
            &column(&told, |(_, (_, progress))| progress.at.millis()),
        ],
    )
    .await?;
    Ok(())
}

async fn write_logs(tx: &Tx<'_>, reports: &Reports<'_>) -> Done<()> {
    let logs = &reports.logs;
    if logs.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/logs/insert.sql"),
        &[
            &column(logs, |logged| Uuid::from(logged.execution)),
            &column(logs, |logged| logged.seq),
            &column(logs, |logged| logged.fence as i64),
            &column(logs, |logged| logged.line.at.millis()),
            &column(logs, |logged| storable(&logged.line.level)),
            &column(logs, |logged| storable(&logged.line.message)),
        ],
    )
    .await?;
    Ok(())
}

/// The checkpoints that the next attempts of these executions are given.
pub(super) async fn load_checkpoints(
    tx: &Tx<'_>,
    executions: impl IntoIterator<Item = ExecutionId>,
) -> Done<HashMap<ExecutionId, Arc<str>>> {
    let Some(ids) = Ids::of(executions) else { return Ok(HashMap::new()) };
    let rows = tx.query(include_str!("sql/progress/get_checkpoints.sql"), &[&ids.all, &ids.first, &ids.last]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.execution_id()?, Arc::from(columns.text()?)))
    };
    rows.iter().map(read).collect()
}
