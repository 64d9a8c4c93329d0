//! Records: put, get, list, delete. What follows from a write of one is here too: everybody learns that limits were written.

use super::Locks;
use super::rows::{Columns, storable};
use crate::records::{self, Row, decode};
use campanile_model::error::Result;
use campanile_model::ids::EndpointId;
use campanile_model::store::{Expected, Page, RecordKey, RecordKind, RecordQuery, Stored};
use campanile_pg::{Done, Pool, Tx, Uuid};

/// Deliveries that one transaction forgets with their endpoint.
const FORGET_ROWS_MAX: u64 = 4_096;
/// The counter of writes of limits.
const LIMITS: &str = "limits";

/// Writes a record, if what is there is as expected. Limits wait until the claims in flight end: a pool that gets its first limit
/// counts what they start.
pub(super) async fn put(tx: &Tx<'_>, locks: Locks, row: &Row, expected: Option<Expected>) -> Done<bool> {
    if is_limit(row.key.kind) {
        tx.query(include_str!("sql/capacities/hold.sql"), &[&locks.jobs]).await?;
    }
    let (kind, tenant, id) = key(&row.key);
    let (slots, events) = (row.slots.map(i64::from), i64::from(row.events));
    let (body, paused, at_work) = (&row.body, row.paused, row.at_work);
    let written = match expected {
        None => {
            let sql = include_str!("sql/records/put.sql");
            tx.execute(sql, &[&kind, &tenant, &id, body, &slots, &paused, &events, &at_work]).await?
        }
        Some(Expected::Absent) => {
            let sql = include_str!("sql/records/insert.sql");
            tx.execute(sql, &[&kind, &tenant, &id, body, &slots, &paused, &events, &at_work]).await?
        }
        Some(Expected::Version(version)) => {
            let version = i64::from(version);
            let sql = include_str!("sql/records/update.sql");
            tx.execute(sql, &[&kind, &tenant, &id, body, &slots, &paused, &events, &at_work, &version]).await?
        }
    };
    changed(tx, row.key.kind).await?;
    Ok(written == 1)
}

/// Forgets a record, and what waits for it a slice at a time; says whether there was one.
pub(super) async fn delete(pool: &Pool, key: &RecordKey) -> Result<bool> {
    loop {
        let step = pool.write_step(records::delete_step(key.kind), key, |tx, key| Box::pin(forget(tx, key)));
        if let Some(was_there) = step.await? {
            return Ok(was_there);
        }
    }
}

/// Forgets what waits for an endpoint, and once nothing waits, the record itself: then it says whether there was one. In this
/// order, so that a crash between two slices leaves an endpoint that can be deleted again.
async fn forget(tx: &Tx<'_>, of: &RecordKey) -> Done<Option<bool>> {
    let (kind, tenant, id) = key(of);
    if of.kind == RecordKind::Endpoint {
        let Some(endpoint) = EndpointId::from_digits(&of.id) else { return Ok(Some(false)) };
        if tx.query_opt(include_str!("sql/records/lock.sql"), &[&kind, &tenant, &id]).await?.is_none() {
            return Ok(Some(false));
        }
        let (endpoint, limit) = (Uuid::from(endpoint), FORGET_ROWS_MAX as i64);
        if tx.execute(include_str!("sql/outbox/forget.sql"), &[&endpoint, &limit]).await? == FORGET_ROWS_MAX {
            return Ok(None);
        }
    }
    let deleted = tx.execute(include_str!("sql/records/delete.sql"), &[&kind, &tenant, &id]).await?;
    changed(tx, of.kind).await?;
    Ok(Some(deleted == 1))
}

fn is_limit(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Pool | RecordKind::Target)
}

/// Everybody who looks at the pulse sees that limits were written.
async fn changed(tx: &Tx<'_>, kind: RecordKind) -> Done<()> {
    if is_limit(kind) {
        tx.execute(include_str!("sql/counters/add.sql"), &[&LIMITS, &1i64]).await?;
    }
    Ok(())
}

pub(super) async fn get(pool: &Pool, of: &RecordKey) -> Done<Option<Stored>> {
    let (kind, tenant, id) = key(of);
    let found = pool.query(include_str!("sql/records/get.sql"), &[&kind, &tenant, &id]).await?;
    found.first().map(|row| stored(&mut Columns::of(row))).transpose()
}

/// Lists records, the last ones first.
pub(super) async fn list(pool: &Pool, query: &RecordQuery) -> Done<Page<Stored>> {
    let (kind, tenant, id) = records::position(query);
    let sql = match query.at_work {
        true => include_str!("sql/records/list_at_work.sql"),
        false => include_str!("sql/records/list.sql"),
    };
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let (first, last) = (i16::from(query.kinds.start().code()), i16::from(query.kinds.end().code()));
    let of = query.tenant.map(|tenant| i64::from(tenant.0));
    let found = pool.query(sql, &[&first, &last, &of, &kind, &tenant, &id, &one_more]).await?;
    let items = found.iter().take(query.limit).map(|row| stored(&mut Columns::of(row)));
    Ok(Page { items: items.collect::<Done<_>>()?, has_more: found.len() > query.limit })
}

/// A record, from its columns in the order of `records/list.sql`.
pub(super) fn stored(columns: &mut Columns<'_>) -> Done<Stored> {
    let kind = columns.code("record kind", RecordKind::from_code)?;
    let key = RecordKey { kind, tenant: columns.tenant()?, id: columns.next()? };
    let version = columns.small()?;
    Ok(Stored { version, record: decode(key, columns.text()?)? })
}

fn key(key: &RecordKey) -> (i16, i64, std::borrow::Cow<'_, str>) {
    (i16::from(key.kind.code()), i64::from(key.tenant.0), storable(&key.id))
}
