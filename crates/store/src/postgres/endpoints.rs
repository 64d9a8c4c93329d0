//! Endpoints: who wants to hear of what.

use super::rows::{Columns, storable};
use campanile_model::error::Result;
use campanile_model::fault::Step;
use campanile_model::ids::{EndpointId, TenantId};
use campanile_model::notify::{Endpoint, EventKind};
use campanile_pg::{Done, Pool, Tx, Uuid};

/// Deliveries that one transaction forgets with their endpoint.
const FORGET_ROWS_MAX: u64 = 4_096;

/// Writes an endpoint.
pub(super) async fn put(tx: &Tx<'_>, endpoint: &Endpoint) -> Done<()> {
    let sql = include_str!("sql/endpoints/put.sql");
    tx.execute(
        sql,
        &[
            &Uuid::from(endpoint.id),
            &i64::from(endpoint.tenant.0),
            &storable(&endpoint.url),
            &mask(&endpoint.events),
            &endpoint.job.map(Uuid::from),
            &endpoint.tag.as_deref().map(storable),
            &endpoint.paused,
            &endpoint.created_at.millis(),
        ],
    )
    .await?;
    Ok(())
}

/// Forgets an endpoint and what waits for it, a slice at a time; says whether there was one.
pub(super) async fn delete(pool: &Pool, tenant: TenantId, id: EndpointId) -> Result<bool> {
    let what = (tenant, id);
    loop {
        let step =
            pool.write_step(Step("delete_endpoint"), &what, |tx, (tenant, id)| Box::pin(forget(tx, *tenant, *id)));
        if let Some(was_there) = step.await? {
            return Ok(was_there);
        }
    }
}

/// Forgets what waits for an endpoint, and once nothing waits, the endpoint itself: then it says whether there was
/// one. In this order, so that a crash between two slices leaves an endpoint that can be deleted again.
async fn forget(tx: &Tx<'_>, tenant: TenantId, id: EndpointId) -> Done<Option<bool>> {
    let (id, tenant) = (Uuid::from(id), i64::from(tenant.0));
    if tx.query_opt(include_str!("sql/endpoints/lock.sql"), &[&id, &tenant]).await?.is_none() {
        return Ok(Some(false));
    }
    let forgotten = tx.execute(include_str!("sql/outbox/forget.sql"), &[&id, &(FORGET_ROWS_MAX as i64)]).await?;
    if forgotten == FORGET_ROWS_MAX {
        return Ok(None);
    }
    let deleted = tx.execute(include_str!("sql/endpoints/delete.sql"), &[&id, &tenant]).await?;
    Ok(Some(deleted == 1))
}

/// Lists the endpoints of a tenant.
pub(super) async fn list(pool: &Pool, tenant: TenantId) -> Done<Vec<Endpoint>> {
    let found = pool.query(include_str!("sql/endpoints/list.sql"), &[&i64::from(tenant.0)]).await?;
    found.iter().map(|row| endpoint(&mut Columns::of(row))).collect()
}

/// Kinds of events as a mask: bit n stands for the kind with code n.
fn mask(events: &[EventKind]) -> i64 {
    events.iter().fold(0, |mask, kind| mask | 1 << kind.code())
}

/// An endpoint, from its columns in the order of `endpoints/list.sql`.
pub(super) fn endpoint(columns: &mut Columns<'_>) -> Done<Endpoint> {
    let (id, tenant, url) = (columns.next::<Uuid>()?.into(), columns.tenant()?, columns.next()?);
    let events = columns.next::<i64>()?;
    Ok(Endpoint {
        id,
        tenant,
        url,
        events: EventKind::ALL.into_iter().filter(|kind| events & (1 << kind.code()) != 0).collect(),
        job: columns.next::<Option<Uuid>>()?.map(Into::into),
        tag: columns.next()?,
        paused: columns.next()?,
        created_at: columns.instant()?,
    })
}
