//! Endpoints: who is told of events.

use crate::bells::Bells;
use crate::context::Context;
use campanile_model::notify::Endpoint;
use campanile_model::store::{DeliveryWrite, RECORDS_PAGE, RecordKey, RecordKind, RecordQuery, list_all};
use campanile_model::{EndpointId, Error, FieldError, Kind, Result, TenantId, limits};

/// All endpoints, in the order of their ids.
pub async fn list(ctx: &Context, tenant: TenantId) -> Result<Vec<Endpoint>> {
    list_all(&*ctx.store, RecordQuery::new(RecordKind::Endpoint, Some(tenant), RECORDS_PAGE)).await
}

/// Makes an endpoint, or changes one; its URL is checked by the rules for webhooks.
pub async fn put(ctx: &Context, bells: &Bells, endpoint: Endpoint) -> Result<Endpoint> {
    if let Err(message) = ctx.sender.check(&endpoint.url) {
        return Err(Error::invalid(vec![FieldError::new("/url", "url_invalid", message)]));
    }
    let known = list(ctx, endpoint.tenant).await?;
    if known.len() >= limits::ENDPOINTS_MAX && !known.iter().any(|known| known.id == endpoint.id) {
        let message = format!("there are {} endpoints already", limits::ENDPOINTS_MAX);
        return Err(Error::new(Kind::Conflict, message).with_code("endpoints_too_many"));
    }
    ctx.store.put_record(endpoint.clone().into(), None).await?;
    bells.deliveries.notify_one();
    Ok(endpoint)
}

/// Forgets an endpoint and what waits for it; says whether there was one.
pub async fn delete(ctx: &Context, tenant: TenantId, id: EndpointId) -> Result<bool> {
    ctx.store.delete_record(&RecordKey::new(RecordKind::Endpoint, tenant, id.to_digits())).await
}

/// A new id for an endpoint.
pub fn new_id(ctx: &Context) -> EndpointId {
    EndpointId::new(ctx.clock.now(), (ctx.random.next() >> 48) as u16, ctx.random.next())
}

/// Has a delivery sent again; says whether there is one.
pub async fn send_again(
    ctx: &Context,
    bells: &Bells,
    tenant: TenantId,
    endpoint: EndpointId,
    seq: u64,
) -> Result<bool> {
    let again = DeliveryWrite::Replay { tenant, endpoint, seq, now: ctx.clock.now() };
    let found = ctx.store.put_deliveries(vec![again]).await?;
    bells.deliveries.notify_one();
    Ok(found == [true])
}
