//! Deliveries of events to endpoints: what is due, what became of it, what is to be tried again. `outbox` writes them.

use super::records;
use super::rows::{self, Columns};
use super::write::column;
use campanile_model::ids::{EndpointId, TenantId};
use campanile_model::notify::{Delivery, DeliveryState, Endpoint, EventKind, Tried};
use campanile_model::store::{DeliveryWrite, Page};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};
use std::collections::HashSet;

/// The state of deliveries that are not settled.
const WAITING: i16 = DeliveryState::Waiting.code() as i16;

/// Reads deliveries that wait and are due, in the order of `next_at`.
pub(super) async fn load(
    pool: &Pool,
    now: Timestamp,
    except: &[EndpointId],
    limit: usize,
) -> Done<Vec<(Delivery, Endpoint)>> {
    let except: Vec<String> = except.iter().map(EndpointId::to_digits).collect();
    let sql = include_str!("sql/outbox/load.sql");
    let found = pool.query(sql, &[&now.millis(), &except, &(limit as i64)]).await?;
    let both = |row| {
        let mut columns = Columns::of(row);
        Ok((delivery(&mut columns)?, records::stored(&mut columns)?.into_inner()?))
    };
    found.iter().map(both).collect()
}

/// Writes what became of deliveries.
pub(super) async fn put(tx: &Tx<'_>, writes: &[DeliveryWrite]) -> Done<Vec<bool>> {
    let tried = writes.iter().filter_map(|write| match write {
        DeliveryWrite::Tried(tried) => Some(tried),
        DeliveryWrite::Replay { .. } => None,
    });
    let settled = settle(tx, tried.collect()).await?;
    let mut put = Vec::with_capacity(writes.len());
    for write in writes {
        put.push(match write {
            DeliveryWrite::Tried(tried) => settled.contains(&(tried.seq as i64)),
            DeliveryWrite::Replay { tenant, endpoint, seq, now } => {
                replay(tx, (*tenant, *endpoint), *seq, *now).await?
            }
        });
    }
    Ok(put)
}

async fn settle(tx: &Tx<'_>, mut tried: Vec<&Tried>) -> Done<HashSet<i64>> {
    if tried.is_empty() {
        return Ok(HashSet::new());
    }
    // In their order, as everybody locks rows.
    tried.sort_by_key(|one| one.seq);
    let settled = tx
        .query(
            include_str!("sql/outbox/settle.sql"),
            &[
                &column(&tried, |one| one.seq as i64),
                &WAITING,
                &column(&tried, |one| i16::from(one.state.code())),
                &column(&tried, |one| one.next_at.millis()),
                &column(&tried, |one| one.status.map(i64::from)),
                &column(&tried, |one| one.error.as_deref().map(rows::storable)),
            ],
        )
        .await?;
    Ok(settled.iter().map(|row| row.get(0)).collect())
}

async fn replay(tx: &Tx<'_>, (tenant, endpoint): (TenantId, EndpointId), seq: u64, now: Timestamp) -> Done<bool> {
    let (seq, tenant, endpoint) = (seq as i64, i64::from(tenant.0), Uuid::from(endpoint));
    let sql = include_str!("sql/outbox/replay.sql");
    Ok(tx.execute(sql, &[&seq, &tenant, &endpoint, &WAITING, &now.millis()]).await? == 1)
}

/// Lists the deliveries to an endpoint, newest first.
pub(super) async fn list(
    pool: &Pool,
    tenant: TenantId,
    endpoint: EndpointId,
    before: Option<u64>,
    limit: usize,
) -> Done<Page<Delivery>> {
    let before = before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX);
    let (endpoint, tenant, one_more) = (Uuid::from(endpoint), i64::from(tenant.0), limit as i64 + 1);
    let found = pool.query(include_str!("sql/outbox/list.sql"), &[&endpoint, &tenant, &before, &one_more]).await?;
    let items = found.iter().take(limit).map(|row| delivery(&mut Columns::of(row)));
    Ok(Page { items: items.collect::<Done<_>>()?, has_more: found.len() > limit })
}

fn delivery(columns: &mut Columns<'_>) -> Done<Delivery> {
    Ok(Delivery {
        seq: columns.number()?,
        tenant: columns.tenant()?,
        endpoint: columns.next::<Uuid>()?.into(),
        kind: columns.code("event kind", EventKind::from_code)?,
        job: columns.job_id()?,
        execution: columns.next::<Option<Uuid>>()?.map(Into::into),
        at: columns.instant()?,
        data: columns.next()?,
        state: columns.code("delivery state", DeliveryState::from_code)?,
        tries: columns.small()?,
        next_at: columns.instant()?,
        status: columns.small_or_none()?,
        error: columns.next()?,
    })
}
