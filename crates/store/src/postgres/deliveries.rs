//! Deliveries of events to endpoints: what is due, what became of it, what is to be tried again. `outbox` writes them.

use super::records;
use super::rows::{self, Columns};
use super::write::column;
use campanile_model::ids::{EndpointId, TenantId};
use campanile_model::notify::{Delivery, DeliveryState, Endpoint, EventKind, Tried};
use campanile_model::store::Page;
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};

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

/// Writes what became of tries. One that does not wait any more was settled by somebody else.
pub(super) async fn settle(tx: &Tx<'_>, tried: &[Tried]) -> Done<()> {
    // In their order, as everybody locks rows.
    let mut tried: Vec<&Tried> = tried.iter().collect();
    tried.sort_by_key(|one| one.seq);
    let sql = include_str!("sql/outbox/settle.sql");
    tx.execute(
        sql,
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
    Ok(())
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

/// Has a delivery tried again from the start, as long as its endpoint is there.
pub(super) async fn replay(
    tx: &Tx<'_>,
    tenant: TenantId,
    endpoint: EndpointId,
    seq: u64,
    now: Timestamp,
) -> Done<bool> {
    let (seq, tenant, endpoint) = (seq as i64, i64::from(tenant.0), Uuid::from(endpoint));
    let sql = include_str!("sql/outbox/replay.sql");
    Ok(tx.execute(sql, &[&seq, &tenant, &endpoint, &WAITING, &now.millis()]).await? == 1)
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
