//! Operations: put, get, list, load.

use super::rows::{Columns, storable};
use campanile_model::ids::{OperationId, TenantId};
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::store::Page;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx, Uuid};

/// Writes an operation, if it is in the expected state; `None` stands for not being there.
pub(super) async fn put(tx: &Tx<'_>, operation: &Operation, expected: Option<OperationState>) -> Done<bool> {
    let (id, tenant) = (Uuid::from(operation.id), i64::from(operation.tenant.0));
    let (state, updated_at) = (i16::from(operation.state.code()), operation.updated_at.millis());
    let (spec, progress) = (storable(&operation.spec), storable(&operation.progress));
    let changed = match expected {
        None => {
            let (kind, created_at) = (i16::from(operation.kind.code()), operation.created_at.millis());
            let sql = include_str!("sql/operations/insert.sql");
            tx.execute(sql, &[&id, &tenant, &kind, &state, &created_at, &updated_at, &spec, &progress]).await?
        }
        Some(expected) => {
            let expected = i16::from(expected.code());
            let sql = include_str!("sql/operations/update.sql");
            tx.execute(sql, &[&id, &tenant, &expected, &state, &updated_at, &spec, &progress]).await?
        }
    };
    Ok(changed == 1)
}

/// Reads an operation.
pub(super) async fn get(pool: &Pool, tenant: TenantId, id: OperationId) -> Done<Option<Operation>> {
    let sql = include_str!("sql/operations/get.sql");
    Ok(read(&pool.query(sql, &[&Uuid::from(id), &i64::from(tenant.0)]).await?)?.pop())
}

/// Lists the operations of a tenant, newest first.
pub(super) async fn list(
    pool: &Pool,
    tenant: TenantId,
    before: Option<OperationId>,
    limit: usize,
) -> Done<Page<Operation>> {
    let before = before.map_or(Uuid([0xff; 16]), Uuid::from);
    let sql = include_str!("sql/operations/list.sql");
    let mut items = read(&pool.query(sql, &[&i64::from(tenant.0), &before, &(limit as i64 + 1)]).await?)?;
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, has_more })
}

/// Reads the operations that are at work, oldest first.
pub(super) async fn load(pool: &Pool, limit: usize) -> Done<Vec<Operation>> {
    read(&pool.query(include_str!("sql/operations/load.sql"), &[&(limit as i64)]).await?)
}

fn read(found: &[Row]) -> Done<Vec<Operation>> {
    let operation = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(Operation {
            id: columns.next::<Uuid>()?.into(),
            tenant: columns.tenant()?,
            kind: columns.code("operation kind", OperationKind::from_code)?,
            state: columns.code("operation state", OperationState::from_code)?,
            created_at: columns.instant()?,
            updated_at: columns.instant()?,
            spec: columns.next()?,
            progress: columns.next()?,
        })
    };
    found.iter().map(operation).collect()
}
