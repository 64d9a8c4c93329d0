//! Records: put, get, list, delete. What follows from a write of one is here too: the writer forgets what it knew of
//! endpoints, and everybody learns that limits were written.

use super::failure::{Done, Failure};
use super::rows::Columns;
use super::{counters, known};
use crate::records::{Row, decode, position};
use campanile_model::ids::EndpointId;
use campanile_model::notify::Endpoint;
use campanile_model::store::{Expected, Page, RecordKey, RecordKind, RecordQuery, Stored};
use rusqlite::{Connection, Rows, params};

/// Deliveries that one transaction forgets with their endpoint.
const FORGET_ROWS_MAX: usize = 4_096;

/// Writes a record, if what is there is as expected.
pub(super) fn put(connection: &Connection, row: &Row, expected: Option<Expected>) -> Done<bool> {
    let Row { key: RecordKey { kind, tenant, id }, body, slots, paused, events, at_work } = row;
    let (kind, tenant) = (kind.code(), tenant.0);
    let written = match expected {
        None => connection
            .prepare_cached(include_str!("sql/records/put.sql"))?
            .execute(params![kind, tenant, id, body, slots, paused, events, at_work])?,
        Some(Expected::Absent) => connection
            .prepare_cached(include_str!("sql/records/insert.sql"))?
            .execute(params![kind, tenant, id, body, slots, paused, events, at_work])?,
        Some(Expected::Version(version)) => connection
            .prepare_cached(include_str!("sql/records/update.sql"))?
            .execute(params![kind, tenant, id, body, slots, paused, events, at_work, version])?,
    };
    changed(connection, row.key.kind)?;
    Ok(written == 1)
}

/// Forgets a record and says whether there was one. An endpoint goes once nothing waits for it, a slice at a time, with `None`
/// before the last one: a crash between two slices leaves an endpoint that can be deleted again.
pub(super) fn delete(connection: &Connection, key: &RecordKey) -> Done<Option<bool>> {
    if key.kind == RecordKind::Endpoint {
        let (Some(id), true) = (EndpointId::from_digits(&key.id), get(connection, key)?.is_some()) else {
            return Ok(Some(false));
        };
        let mut forget = connection.prepare_cached(include_str!("sql/outbox/forget.sql"))?;
        if forget.execute(params![id.as_bytes(), FORGET_ROWS_MAX as i64])? == FORGET_ROWS_MAX {
            return Ok(None);
        }
    }
    let mut delete = connection.prepare_cached(include_str!("sql/records/delete.sql"))?;
    let deleted = delete.execute(params![key.kind.code(), key.tenant.0, key.id])?;
    changed(connection, key.kind)?;
    Ok(Some(deleted == 1))
}

fn changed(connection: &Connection, kind: RecordKind) -> Done<()> {
    match kind {
        RecordKind::Pool | RecordKind::Target => counters::add(connection, counters::LIMITS, 1).map(|_| ()),
        RecordKind::Endpoint => {
            known::forget();
            Ok(())
        }
        RecordKind::Operation | RecordKind::ZoneDatabase => Ok(()),
    }
}

pub(super) fn get(connection: &Connection, key: &RecordKey) -> Done<Option<Stored>> {
    let mut get = connection.prepare_cached(include_str!("sql/records/get.sql"))?;
    Ok(read(get.query(params![key.kind.code(), key.tenant.0, key.id])?)?.pop())
}

/// Lists records, the last ones first.
pub(super) fn list(connection: &Connection, query: &RecordQuery) -> Done<Page<Stored>> {
    let (kind, tenant, id) = position(query);
    let mut list = connection.prepare_cached(match query.at_work {
        true => include_str!("sql/records/list_at_work.sql"),
        false => include_str!("sql/records/list.sql"),
    })?;
    let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let of = query.tenant.map(|tenant| tenant.0);
    let (first, last) = (query.kinds.start().code(), query.kinds.end().code());
    let mut items = read(list.query(params![first, last, of, kind, tenant, id, one_more])?)?;
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

/// Lists the endpoints of all tenants, in the order of their ids.
pub(super) fn list_endpoints(connection: &Connection) -> Done<Vec<Endpoint>> {
    let all = list(connection, &RecordQuery::new(RecordKind::Endpoint, None, usize::MAX))?;
    all.items.into_iter().rev().map(|stored| Ok(stored.into_inner()?)).collect()
}

fn read(mut found: Rows<'_>) -> Done<Vec<Stored>> {
    let mut records = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let kind = columns.code("record kind", RecordKind::from_code)?;
        let key = RecordKey { kind, tenant: columns.tenant()?, id: columns.next()? };
        let version = columns.next()?;
        records.push(Stored { version, record: decode(key, columns.text()?).map_err(Failure::from)? });
    }
    Ok(records)
}
