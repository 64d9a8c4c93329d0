//! What attempts report about themselves, as it is read: progress, checkpoints, logs.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::execution::{LogLine, Progress};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::store::Reports;
use rusqlite::{Connection, params};
use std::sync::Arc;

/// Reads what an execution's attempts reported.
pub(super) fn reports(
    connection: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    after: u64,
    limit: usize,
) -> Done<Reports> {
    let logs = if limit == 0 { Vec::new() } else { list_logs(connection, tenant, execution, after, limit)? };
    Ok(Reports { progress: get(connection, tenant, execution)?, logs })
}

/// Reads what the newest attempt reported that reported anything.
fn get(connection: &Connection, tenant: TenantId, execution: ExecutionId) -> Done<Option<Progress>> {
    let mut get = connection.prepare_cached(include_str!("sql/progress/get.sql"))?;
    let mut found = get.query(params![execution.as_bytes(), tenant.0])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(Progress {
        fraction: columns.next()?,
        message: columns.next()?,
        checkpoint: columns.next::<Option<String>>()?.map(Arc::from),
        at: columns.instant()?,
    }))
}

/// Lists what an execution's attempts logged.
fn list_logs(
    connection: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    after: u64,
    limit: usize,
) -> Done<Vec<(u64, LogLine)>> {
    let mut list = connection.prepare_cached(include_str!("sql/logs/list.sql"))?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut found = list.query(params![execution.as_bytes(), tenant.0, after, limit as i64])?;
    let mut lines = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let seq = columns.number()?;
        lines.push((seq, LogLine { at: columns.instant()?, level: columns.next()?, message: columns.next()? }));
    }
    Ok(lines)
}
