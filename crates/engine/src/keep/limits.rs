//! The limits of pools and targets: what is stored, and what the gate of this node knows of it.

use crate::context::Context;
use crate::lines;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::store::{RECORDS_PAGE, Record, RecordKey, RecordQuery, list_all};
use campanile_model::{Error, Kind, Result, TenantId, limits};

/// Tells the gate what the limits are, and what runs against them. Says whether anything is limited by what runs.
pub async fn refresh(ctx: &Context) -> Result<bool> {
    let capacities: Vec<Capacity> = list_all(&*ctx.store, RecordQuery::limits(None, RECORDS_PAGE)).await?;
    let counted = capacities.iter().any(|capacity| capacity.scope == Scope::Pool && capacity.slots.is_some());
    let counts = if counted { ctx.store.counts(None).await? } else { Vec::new() };
    let called = ctx.gate.refresh(&capacities, &counts, ctx.clock.now());
    lines::publish(ctx, called).await;
    Ok(counted)
}

/// The limits of pools or targets.
pub async fn list(ctx: &Context, tenant: TenantId, scope: Scope) -> Result<Vec<Capacity>> {
    list_all(&*ctx.store, RecordQuery::new(scope.into(), Some(tenant), RECORDS_PAGE)).await
}

/// Sets the limits of a pool or target; they hold when this returns.
pub async fn put(ctx: &Context, capacity: Capacity) -> Result<()> {
    let tenant = capacity.tenant;
    let record = Record::Limits(capacity);
    if ctx.store.get_record(&record.key()).await?.is_none() {
        let known = RecordQuery::limits(Some(tenant), limits::CAPACITIES_MAX);
        if ctx.store.list_records(&known).await?.items.len() >= limits::CAPACITIES_MAX {
            let message = format!("there are {} pools and targets with limits already", limits::CAPACITIES_MAX);
            return Err(Error::new(Kind::Conflict, message).with_code("capacities_too_many"));
        }
    }
    ctx.store.put_record(record, None).await?;
    refresh(ctx).await.map(|_| ())
}

/// Forgets the limits of a pool or target; says whether it had any.
pub async fn delete(ctx: &Context, tenant: TenantId, scope: Scope, name: &str) -> Result<bool> {
    let deleted = ctx.store.delete_record(&RecordKey::new(scope.into(), tenant, name)).await?;
    refresh(ctx).await?;
    Ok(deleted)
}
