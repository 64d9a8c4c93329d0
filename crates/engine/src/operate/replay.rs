//! Dead executions run again: one, a selection, or all that match a filter.

use super::{Progress, Terms, note, parse};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use campanile_model::execution::Execution;
use campanile_model::filter::Filter;
use campanile_model::lifecycle::State;
use campanile_model::operation::Operation;
use campanile_model::store::{ExecutionPage, ExecutionQuery, Resolve};
use campanile_model::{Error, ExecutionId, FieldError, Result, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplaySpec {
    /// These; or else all that match the filter.
    pub executions: Vec<String>,
    /// The filter's canonical text.
    pub filter: String,
    /// Only those that died before this, in milliseconds: what dies again is not replayed again.
    pub before_ms: i64,
    #[serde(flatten)]
    pub terms: Terms,
}

/// What a replay would do: how many (at most `limits::SCAN_ROWS_MAX`, and whether there are more), and the first few.
pub async fn preview(ctx: &Context, tenant: TenantId, spec: &ReplaySpec) -> Result<(u64, bool, Vec<Execution>)> {
    let mut samples: Vec<Execution> = Vec::new();
    let mut count = 0;
    let mut before = None;
    if !spec.executions.is_empty() {
        let found = ctx.store.get_executions(tenant, &ids(&spec.executions)?).await?;
        let dead: Vec<Execution> = found.into_iter().flatten().filter(|e| e.state == State::Dead).collect();
        return Ok((dead.len() as u64, false, dead.into_iter().take(5).collect()));
    }
    loop {
        let page = page(ctx, tenant, spec, before, limits::PAGE_ITEMS_MAX).await?;
        count += page.items.len() as u64;
        samples.extend(page.items.into_iter().take(5 - samples.len()));
        match page.next {
            Some(next) if count < limits::SCAN_ROWS_MAX as u64 => before = Some(next),
            next => return Ok((count, next.is_some(), samples)),
        }
    }
}

/// Starts up to `room` more.
pub(super) async fn start(
    ctx: &Context,
    dispatcher: &Dispatcher,
    operation: &Operation,
    progress: &mut Progress,
    room: usize,
) -> Result<()> {
    let spec: ReplaySpec = parse(&operation.spec)?;
    let (chosen, cursor) = match spec.executions.is_empty() {
        false => {
            let from: usize = progress.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            let chosen: Vec<String> = spec.executions.iter().skip(from).take(room).cloned().collect();
            let next = from + chosen.len();
            let dead = selected(ctx, operation.tenant, &chosen, spec.before_ms).await?;
            progress.passed_over += (chosen.len() - dead.len()) as u64;
            (dead, (next < spec.executions.len()).then(|| next.to_string()))
        }
        true => {
            let before = progress.cursor.as_deref().and_then(|cursor| cursor.parse().ok());
            let page = page(ctx, operation.tenant, &spec, before, room).await?;
            let chosen = page.items.iter().map(|execution| execution.id).collect();
            (chosen, page.next.map(|next| next.to_string()))
        }
    };
    let now = ctx.clock.now();
    let replays = chosen.iter().map(|&execution| Resolve::Replay { execution, wake_at: now }).collect();
    let moved = ctx.store.resolve_dead(operation.tenant, replays, now).await?;
    note(progress, &chosen, &moved.verdicts);
    dispatcher.send(moved.ready);
    progress.exhausted = cursor.is_none();
    progress.cursor = cursor;
    Ok(())
}

/// Those of a selection that were dead before the replay began: one that has died again meanwhile is not replayed again.
async fn selected(ctx: &Context, tenant: TenantId, chosen: &[String], before_ms: i64) -> Result<Vec<ExecutionId>> {
    let found = ctx.store.get_executions(tenant, &ids(chosen)?).await?;
    let before = Timestamp::from_millis(before_ms);
    let dead = |e: &Execution| e.state == State::Dead && e.finished_at.is_none_or(|at| at <= before);
    Ok(found.into_iter().flatten().filter(dead).map(|execution| execution.id).collect())
}

/// A page of what is to be replayed, newest first.
async fn page(
    ctx: &Context,
    tenant: TenantId,
    spec: &ReplaySpec,
    before: Option<ExecutionId>,
    limit: usize,
) -> Result<ExecutionPage> {
    let filter = Filter::parse(&spec.filter, ctx.clock.now())
        .map_err(|error| Error::invalid(vec![FieldError::new("/filter", "filter_invalid", error.message)]))?;
    let (from, to) = filter.window();
    let query = ExecutionQuery { tenant, job: None, states: vec![State::Dead], from, to, filter, before, limit };
    let mut page = ctx.store.list_executions(&query).await?;
    let limit = Timestamp::from_millis(spec.before_ms);
    page.items.retain(|execution| execution.finished_at.is_none_or(|at| at <= limit));
    Ok(page)
}

fn ids(texts: &[String]) -> Result<Vec<ExecutionId>> {
    let ids = texts.iter().enumerate().map(|(i, text)| {
        text.parse().map_err(|_| {
            let message = format!("`{text}` is not the id of an execution");
            Error::invalid(vec![FieldError::new(format!("/executions/{i}"), "id_invalid", message)])
        })
    });
    ids.collect()
}
