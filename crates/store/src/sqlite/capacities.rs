//! Limits of pools and targets, and the counts that pools are limited by.

use super::counters;
use super::failure::Done;
use super::rows::{Columns, Texts};
use campanile_model::capacity::{Capacity, Count, Scope};
use campanile_model::ids::TenantId;
use rusqlite::{Connection, params};

/// Writes the limits of a pool or target.
pub(super) fn put(connection: &Connection, capacity: &Capacity) -> Done<()> {
    connection.prepare_cached(include_str!("sql/capacities/put.sql"))?.execute(params![
        capacity.tenant.0,
        capacity.scope.code(),
        capacity.name,
        capacity.slots,
        capacity.per_second_milli.map(|rate| rate as i64),
        capacity.paused,
        capacity.updated_at.millis(),
    ])?;
    counters::add(connection, counters::LIMITS, 1)?;
    Ok(())
}

/// Forgets the limits of a pool or target.
pub(super) fn delete(connection: &Connection, tenant: TenantId, scope: Scope, name: &str) -> Done<bool> {
    let mut delete = connection.prepare_cached(include_str!("sql/capacities/delete.sql"))?;
    let was_there = delete.execute(params![tenant.0, scope.code(), name])? == 1;
    counters::add(connection, counters::LIMITS, 1)?;
    Ok(was_there)
}

/// Reads all limits.
pub(super) fn list(connection: &Connection, tenant: Option<TenantId>) -> Done<Vec<Capacity>> {
    let mut list = connection.prepare_cached(include_str!("sql/capacities/list.sql"))?;
    let mut found = list.query([tenant.map(|tenant| tenant.0)])?;
    let mut capacities = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        capacities.push(Capacity {
            tenant: columns.tenant()?,
            scope: columns.code("scope", Scope::from_code)?,
            name: columns.next()?,
            slots: columns.next()?,
            per_second_milli: columns.number_or_none()?,
            paused: columns.next()?,
            updated_at: columns.instant()?,
        });
    }
    Ok(capacities)
}

/// Reads the counts that are not zero.
pub(super) fn counts(connection: &Connection, tenant: Option<TenantId>) -> Done<Vec<Count>> {
    let mut list = connection.prepare_cached(include_str!("sql/counts/list.sql"))?;
    let mut found = list.query([tenant.map(|tenant| tenant.0)])?;
    let mut texts = Texts::default();
    let mut counts = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        counts.push(Count {
            tenant: columns.tenant()?,
            pool: texts.share(columns.text()?),
            state: columns.state()?,
            executions: columns.number()?,
        });
    }
    Ok(counts)
}
