//! The outbox: events, as they are written; which there are is in `core::outbox`. And what became of their deliveries.

use super::failure::Done;
use super::known;
use super::rows::Columns;
use crate::core::outbox::{Named, Outbox, Subscriber};
use campanile_model::ids::{EndpointId, ExecutionId, JobId, TenantId};
use campanile_model::notify::{Delivery, DeliveryState, Endpoint, EventKind, Tried};
use campanile_model::store::{DeliveryWrite, Page};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Loads who wants the events that may be sent: whose, of which job, and which.
pub(super) fn load_wanting(connection: &Connection, may: &[(TenantId, JobId, EventKind)]) -> Done<Outbox> {
    let mut outbox = Outbox::default();
    let is_wanted = |known: &known::Known| may.iter().any(|(tenant, _, kind)| known.is_wanted(*tenant, *kind));
    if !known::ask(connection, is_wanted)? {
        return Ok(outbox);
    }
    outbox.endpoints = known::ask(connection, |known| known.endpoints().map(Subscriber::of).collect())?;
    let mut get_job = connection.prepare_cached(include_str!("sql/outbox/get_job.sql"))?;
    for job in outbox.wanted_jobs(may) {
        let named = get_job.query_row([job.as_bytes()], |row| Ok(Named { name: row.get(0)?, tags: row.get(1)? }));
        outbox.jobs.extend(named.optional()?.map(|named| (job, named)));
    }
    Ok(outbox)
}

pub(super) fn write(connection: &Connection, outbox: &Outbox) -> Done<()> {
    for event in &outbox.events {
        connection.prepare_cached(include_str!("sql/outbox/insert.sql"))?.execute(params![
            event.tenant.0,
            event.endpoint.as_bytes(),
            event.kind.code(),
            event.job.as_bytes(),
            event.execution.as_ref().map(ExecutionId::as_bytes),
            event.at.millis(),
            event.data,
            DeliveryState::Waiting.code(),
        ])?;
    }
    Ok(())
}

/// Reads deliveries that wait and are due, in the order of `next_at`. Each endpoint is asked for its own: what waits
/// for a paused one is not even read.
pub(super) fn load(
    connection: &Connection,
    endpoints: Vec<Endpoint>,
    (now, except): (Timestamp, &[EndpointId]),
    limit: usize,
) -> Done<Vec<(Delivery, Endpoint)>> {
    let mut load = connection.prepare_cached(include_str!("sql/outbox/load.sql"))?;
    let mut due = Vec::new();
    let open = |endpoint: &Endpoint| !endpoint.paused && !except.contains(&endpoint.id);
    for (of, endpoint) in endpoints.iter().enumerate().filter(|(_, endpoint)| open(endpoint)) {
        let mut found = load.query(params![endpoint.id.as_bytes(), now.millis(), limit as i64])?;
        while let Some(row) = found.next()? {
            due.push((delivery(row)?, of));
        }
    }
    due.sort_by_key(|(delivery, _)| (delivery.next_at, delivery.seq));
    due.truncate(limit);
    Ok(due.into_iter().map(|(delivery, of)| (delivery, endpoints[of].clone())).collect())
}

/// Writes what became of deliveries.
pub(super) fn put(connection: &Connection, writes: &[DeliveryWrite]) -> Done<Vec<bool>> {
    let mut put = Vec::with_capacity(writes.len());
    for write in writes {
        put.push(match write {
            DeliveryWrite::Tried(tried) => settle(connection, tried)?,
            DeliveryWrite::Replay { tenant, endpoint, seq, now } => {
                replay(connection, (*tenant, *endpoint), *seq, *now)?
            }
        });
    }
    Ok(put)
}

fn settle(connection: &Connection, tried: &Tried) -> Done<bool> {
    let mut settle = connection.prepare_cached(include_str!("sql/outbox/settle.sql"))?;
    let settled = settle.execute(params![
        tried.seq as i64,
        DeliveryState::Waiting.code(),
        tried.state.code(),
        tried.next_at.millis(),
        tried.status,
        tried.error,
    ])?;
    Ok(settled == 1)
}

fn replay(connection: &Connection, (tenant, endpoint): (TenantId, EndpointId), seq: u64, now: Timestamp) -> Done<bool> {
    let mut replay = connection.prepare_cached(include_str!("sql/outbox/replay.sql"))?;
    let waiting = DeliveryState::Waiting.code();
    Ok(replay.execute(params![seq as i64, tenant.0, endpoint.as_bytes(), waiting, now.millis()])? == 1)
}

/// Lists the deliveries to an endpoint, newest first.
pub(super) fn list(
    connection: &Connection,
    tenant: TenantId,
    endpoint: EndpointId,
    before: Option<u64>,
    limit: usize,
) -> Done<Page<Delivery>> {
    let before = before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
    let mut list = connection.prepare_cached(include_str!("sql/outbox/list.sql"))?;
    let mut found = list.query(params![endpoint.as_bytes(), tenant.0, before, limit as i64 + 1])?;
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        items.push(delivery(row)?);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, has_more })
}

fn delivery(row: &Row<'_>) -> Done<Delivery> {
    let mut columns = Columns::of(row);
    Ok(Delivery {
        seq: columns.number()?,
        tenant: columns.tenant()?,
        endpoint: EndpointId::from_bytes(columns.next()?),
        kind: columns.code("event kind", EventKind::from_code)?,
        job: columns.job_id()?,
        execution: columns.next::<Option<[u8; 16]>>()?.map(ExecutionId::from_bytes),
        at: columns.instant()?,
        data: columns.next()?,
        state: columns.code("delivery state", DeliveryState::from_code)?,
        tries: columns.next()?,
        next_at: columns.instant()?,
        status: columns.next()?,
        error: columns.next()?,
    })
}
