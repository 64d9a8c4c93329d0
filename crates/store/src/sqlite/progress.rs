//! What attempts tell about themselves: progress, checkpoints, logs.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::execution::{LogLine, Progress};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::limits;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

/// Keeps what an attempt told; what it left out stays as it was.
pub(super) fn put(connection: &Connection, execution: ExecutionId, fence: u64, progress: &Progress) -> Done<()> {
    connection.prepare_cached(include_str!("sql/progress/put.sql"))?.execute(params![
        execution.as_bytes(),
        fence as i64,
        progress.fraction,
        progress.message,
        progress.checkpoint.as_deref(),
        progress.at.millis(),
    ])?;
    Ok(())
}

/// Reads what the newest attempt told that told anything.
pub(super) fn get(connection: &Connection, tenant: TenantId, execution: ExecutionId) -> Done<Option<Progress>> {
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

/// The checkpoint that the next attempt is given.
pub(super) fn checkpoint(connection: &Connection, execution: ExecutionId) -> Done<Option<Arc<str>>> {
    let mut get = connection.prepare_cached(include_str!("sql/progress/get_checkpoint.sql"))?;
    let found = get.query_row([execution.as_bytes()], |row| row.get::<_, Option<String>>(0)).optional()?;
    Ok(found.flatten().map(Arc::from))
}

/// Appends to the log of an execution, as far as there is room.
pub(super) fn log(connection: &Connection, execution: ExecutionId, fence: u64, lines: &[LogLine]) -> Done<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut last = connection.prepare_cached(include_str!("sql/logs/last.sql"))?;
    let there: i64 = last.query_row([execution.as_bytes()], |row| row.get(0))?;
    let mut insert = connection.prepare_cached(include_str!("sql/logs/insert.sql"))?;
    for (line, seq) in lines.iter().zip(there + 1..=limits::LOG_LINES_MAX as i64) {
        insert
            .execute(params![execution.as_bytes(), seq, fence as i64, line.at.millis(), line.level, line.message,])?;
    }
    Ok(())
}

/// Lists what an execution's attempts logged.
pub(super) fn list_logs(
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
