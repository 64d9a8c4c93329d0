//! Endpoints: who wants to hear of what.

use super::failure::Done;
use super::known;
use super::rows::Columns;
use campanile_model::ids::{EndpointId, JobId, TenantId};
use campanile_model::notify::{Endpoint, EventKind};
use rusqlite::{Connection, Row, params};

/// Deliveries that one transaction forgets with their endpoint.
const FORGET_ROWS_MAX: usize = 4_096;

/// Writes an endpoint.
pub(super) fn put(connection: &Connection, endpoint: &Endpoint) -> Done<()> {
    connection.prepare_cached(include_str!("sql/endpoints/put.sql"))?.execute(params![
        endpoint.id.as_bytes(),
        endpoint.tenant.0,
        endpoint.url,
        mask(&endpoint.events),
        endpoint.job.as_ref().map(JobId::as_bytes),
        endpoint.tag,
        endpoint.paused,
        endpoint.created_at.millis(),
    ])?;
    known::forget();
    Ok(())
}

/// Forgets what waits for an endpoint, and once nothing waits, the endpoint itself: then it says whether there was one. In
/// this order, so that a crash between two slices leaves an endpoint that can be deleted again.
pub(super) fn delete(connection: &Connection, tenant: TenantId, id: EndpointId) -> Done<Option<bool>> {
    if !list(connection, tenant)?.iter().any(|endpoint| endpoint.id == id) {
        return Ok(Some(false));
    }
    let mut forget = connection.prepare_cached(include_str!("sql/outbox/forget.sql"))?;
    if forget.execute(params![id.as_bytes(), FORGET_ROWS_MAX as i64])? == FORGET_ROWS_MAX {
        return Ok(None);
    }
    let mut delete = connection.prepare_cached(include_str!("sql/endpoints/delete.sql"))?;
    let deleted = delete.execute(params![id.as_bytes(), tenant.0])?;
    known::forget();
    Ok(Some(deleted == 1))
}

/// Lists the endpoints of a tenant.
pub(super) fn list(connection: &Connection, tenant: TenantId) -> Done<Vec<Endpoint>> {
    let mut list = connection.prepare_cached(include_str!("sql/endpoints/list.sql"))?;
    let mut found = list.query([tenant.0])?;
    let mut endpoints = Vec::new();
    while let Some(row) = found.next()? {
        endpoints.push(endpoint(row)?);
    }
    Ok(endpoints)
}

/// Lists the endpoints of all tenants.
pub(super) fn list_all(connection: &Connection) -> Done<Vec<Endpoint>> {
    let mut list = connection.prepare_cached(include_str!("sql/endpoints/list_all.sql"))?;
    let mut found = list.query([])?;
    let mut endpoints = Vec::new();
    while let Some(row) = found.next()? {
        endpoints.push(endpoint(row)?);
    }
    Ok(endpoints)
}

/// Kinds of events as a mask: bit n stands for the kind with code n.
pub(super) fn mask(events: &[EventKind]) -> u8 {
    events.iter().fold(0, |mask, kind| mask | 1 << kind.code())
}

fn endpoint(row: &Row<'_>) -> Done<Endpoint> {
    let mut columns = Columns::of(row);
    let (id, tenant, url) = (EndpointId::from_bytes(columns.next()?), columns.tenant()?, columns.next()?);
    let events: u8 = columns.next()?;
    Ok(Endpoint {
        id,
        tenant,
        url,
        events: EventKind::ALL.into_iter().filter(|kind| events & (1 << kind.code()) != 0).collect(),
        job: columns.next::<Option<[u8; 16]>>()?.map(JobId::from_bytes),
        tag: columns.next()?,
        paused: columns.next()?,
        created_at: columns.instant()?,
    })
}
