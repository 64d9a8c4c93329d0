//! Limits of pools and targets, and the counts that pools are limited by.

use super::Locks;
use super::rows::{Columns, Texts, storable};
use campanile_model::capacity::{Capacity, Count, Scope};
use campanile_model::ids::TenantId;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx};

/// The counter of writes of limits.
const LIMITS: &str = "limits";

/// Writes the limits of a pool or target. Claims in flight end before: a pool that gets its first limit counts what they start.
pub(super) async fn put(tx: &Tx<'_>, locks: Locks, capacity: &Capacity) -> Done<()> {
    tx.query(include_str!("sql/capacities/hold.sql"), &[&locks.jobs]).await?;
    let sql = include_str!("sql/capacities/put.sql");
    tx.execute(
        sql,
        &[
            &i64::from(capacity.tenant.0),
            &i16::from(capacity.scope.code()),
            &storable(&capacity.name),
            &capacity.slots.map(i64::from),
            &capacity.per_second_milli.map(|rate| rate as i64),
            &capacity.paused,
            &capacity.updated_at.millis(),
        ],
    )
    .await?;
    count_write(tx).await
}

/// Forgets the limits of a pool or target.
pub(super) async fn delete(tx: &Tx<'_>, tenant: TenantId, scope: Scope, name: &str) -> Done<bool> {
    let sql = include_str!("sql/capacities/delete.sql");
    let deleted = tx.execute(sql, &[&i64::from(tenant.0), &i16::from(scope.code()), &storable(name)]).await?;
    count_write(tx).await?;
    Ok(deleted == 1)
}

/// Everybody who looks at the pulse sees that limits were written.
async fn count_write(tx: &Tx<'_>) -> Done<()> {
    tx.execute(include_str!("sql/counters/add.sql"), &[&LIMITS, &1i64]).await?;
    Ok(())
}

/// Reads all limits.
pub(super) async fn list(pool: &Pool, tenant: Option<TenantId>) -> Done<Vec<Capacity>> {
    let tenant = tenant.map(|tenant| i64::from(tenant.0));
    let found = pool.query(include_str!("sql/capacities/list.sql"), &[&tenant]).await?;
    let capacity = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(Capacity {
            tenant: columns.tenant()?,
            scope: columns.code("scope", Scope::from_code)?,
            name: columns.next()?,
            slots: columns.small_or_none()?,
            per_second_milli: columns.number_or_none()?,
            paused: columns.next()?,
            updated_at: columns.instant()?,
        })
    };
    found.iter().map(capacity).collect()
}

/// Reads the counts that are not zero.
pub(super) async fn counts(pool: &Pool, tenant: Option<TenantId>) -> Done<Vec<Count>> {
    let tenant = tenant.map(|tenant| i64::from(tenant.0));
    let found = pool.query(include_str!("sql/counts/list.sql"), &[&tenant]).await?;
    let mut texts = Texts::default();
    let count = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(Count {
            tenant: columns.tenant()?,
            pool: texts.share(columns.text()?),
            state: columns.state()?,
            executions: columns.number()?,
        })
    };
    found.iter().map(count).collect()
}
