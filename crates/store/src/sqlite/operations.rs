//! Operations: put, get, list, load.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::ids::{OperationId, TenantId};
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::store::Page;
use rusqlite::{Connection, Rows, params};

/// Writes an operation, if it is in the expected state; `None` stands for not being there.
pub(super) fn put(connection: &Connection, operation: &Operation, expected: Option<OperationState>) -> Done<bool> {
    let (id, tenant) = (operation.id.as_bytes(), operation.tenant.0);
    let (state, updated_at) = (operation.state.code(), operation.updated_at.millis());
    let changed = match expected {
        None => connection.prepare_cached(include_str!("sql/operations/insert.sql"))?.execute(params![
            id,
            tenant,
            operation.kind.code(),
            state,
            operation.created_at.millis(),
            updated_at,
            operation.spec,
            operation.progress,
        ])?,
        Some(expected) => connection.prepare_cached(include_str!("sql/operations/update.sql"))?.execute(params![
            id,
            tenant,
            expected.code(),
            state,
            updated_at,
            operation.spec,
            operation.progress,
        ])?,
    };
    Ok(changed == 1)
}

/// Reads an operation.
pub(super) fn get(connection: &Connection, tenant: TenantId, id: OperationId) -> Done<Option<Operation>> {
    let mut get = connection.prepare_cached(include_str!("sql/operations/get.sql"))?;
    Ok(read(get.query(params![id.as_bytes(), tenant.0])?)?.pop())
}

/// Lists the operations of a tenant, newest first.
pub(super) fn list(
    connection: &Connection,
    tenant: TenantId,
    before: Option<OperationId>,
    limit: usize,
) -> Done<Page<Operation>> {
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let mut list = connection.prepare_cached(include_str!("sql/operations/list.sql"))?;
    let mut items = read(list.query(params![tenant.0, before, limit as i64 + 1])?)?;
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, has_more })
}

/// Reads the operations that are at work, oldest first.
pub(super) fn load(connection: &Connection, limit: usize) -> Done<Vec<Operation>> {
    let mut load = connection.prepare_cached(include_str!("sql/operations/load.sql"))?;
    read(load.query([limit as i64])?)
}

fn read(mut found: Rows<'_>) -> Done<Vec<Operation>> {
    let mut operations = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        operations.push(Operation {
            id: OperationId::from_bytes(columns.next()?),
            tenant: columns.tenant()?,
            kind: columns.code("operation kind", OperationKind::from_code)?,
            state: columns.code("operation state", OperationState::from_code)?,
            created_at: columns.instant()?,
            updated_at: columns.instant()?,
            spec: columns.next()?,
            progress: columns.next()?,
        });
    }
    Ok(operations)
}
