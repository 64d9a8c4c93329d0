//! Dead executions, a few at once: run again, or given up.

use crate::context::Context;
use crate::dispatcher::Dispatcher;
use campanile_model::filter::Filter;
use campanile_model::lifecycle::State;
use campanile_model::store::{Applied, ExecutionQuery, Resolve};
use campanile_model::{ExecutionId, Result, TenantId, limits};
use std::sync::Arc;

/// Runs dead executions again, at once. One verdict each; for many there are replays.
pub async fn replay_now(
    ctx: &Context,
    dispatcher: &Dispatcher,
    tenant: TenantId,
    ids: Vec<ExecutionId>,
) -> Result<Vec<Applied>> {
    let now = ctx.clock.now();
    let replays = ids.into_iter().map(|execution| Resolve::Replay { execution, wake_at: now }).collect();
    let moved = ctx.store.resolve_dead(tenant, replays, now).await?;
    dispatcher.send(moved.ready);
    Ok(moved.verdicts)
}

/// Gives up all dead executions that match a filter; says how many.
pub async fn bury_matching(ctx: &Context, tenant: TenantId, filter: Filter, note: &str) -> Result<u64> {
    let (from, to) = filter.window();
    let (states, limit) = (vec![State::Dead], limits::PAGE_ITEMS_MAX);
    let mut query = ExecutionQuery { tenant, job: None, states, from, to, filter, before: None, limit };
    let mut discarded = 0;
    loop {
        let page = ctx.store.list_executions(&query).await?;
        let ids = page.items.iter().map(|execution| execution.id).collect();
        let verdicts = bury(ctx, tenant, ids, note).await?;
        discarded += verdicts.iter().filter(|verdict| **verdict == Applied::Done).count() as u64;
        match page.next {
            Some(next) => query.before = Some(next),
            None => return Ok(discarded),
        }
    }
}

/// Gives dead executions up. One verdict each.
pub async fn bury(ctx: &Context, tenant: TenantId, ids: Vec<ExecutionId>, note: &str) -> Result<Vec<Applied>> {
    let note: Arc<str> = note.into();
    let given_up = ids.into_iter().map(|execution| Resolve::Discard { execution, note: note.clone() });
    Ok(ctx.store.resolve_dead(tenant, given_up.collect(), ctx.clock.now()).await?.verdicts)
}
