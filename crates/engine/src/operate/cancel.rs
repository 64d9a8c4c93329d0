//! Cancels: of an execution, or of one fire of a job, whether it has come or not.

use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::executions::{self, missing, named};
use crate::jobs;
use crate::lines;
use crate::versions;
use campanile_model::execution::Execution;
use campanile_model::ids::FireKind;
use campanile_model::job::next_fire;
use campanile_model::notify::Expectation;
use campanile_model::store::{CancelBatch, CancelTarget, CancelVerdict, Fire, JobKey};
use campanile_model::{Error, ExecutionId, FieldError, Kind, Result, TenantId, Timestamp, limits};

#[derive(Clone, Debug)]
pub struct Cancel {
    /// How long a running attempt of an external worker gets to stop by itself; `None` ends it at once.
    pub grace_ms: Option<u64>,
    pub note: Option<String>,
    pub caller_key: Option<String>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self { grace_ms: Some(limits::CANCEL_GRACE_MS), note: None, caller_key: None }
    }
}

/// The fire of a job at an instant of its schedule, in the version that governs it, as what is to be cancelled.
pub async fn fire_at(
    ctx: &Context,
    tenant: TenantId,
    key: &JobKey,
    at: Timestamp,
) -> Result<(ExecutionId, CancelTarget)> {
    let newest = jobs::find(ctx, tenant, key).await?;
    let before = at.saturating_add_ms(-1);
    let mut governing = versions::governing(ctx, newest.clone(), before, at).await?;
    let job = governing.pop().map_or(newest, |version| version.job);
    let plan = jobs::decode(&job.plan)?;
    if next_fire(&plan, job.spread_offset_ms(), before) != Some(at) {
        let message = format!("`{}` does not fire at {at}", job.name());
        return Err(Error::invalid(vec![FieldError::new("/at", "not_a_fire", message)]));
    }
    let execution = ExecutionId::scheduled(tenant, job.id, at);
    let dispatch = job.dispatch(execution, at);
    let fire = Fire {
        dispatch,
        kind: FireKind::Schedule,
        wake_at: at,
        overlap: job.definition.overlap,
        covers_from: None,
        expect: Expectation::default(),
    };
    Ok((execution, CancelTarget::Fire(Box::new(fire))))
}

/// Cancels one execution. Under a caller's key, asking again gets the same answer, and says that it was asked before.
pub async fn cancel(
    ctx: &Context,
    dispatcher: &Dispatcher,
    tenant: TenantId,
    (execution, target): (ExecutionId, CancelTarget),
    cancel: Cancel,
) -> Result<(Execution, bool)> {
    let now = ctx.clock.now();
    let scope = format!("{} cancel {execution}", tenant.0);
    let idempotency = cancel.caller_key.map(|key| named(execution, scope, key, now));
    if let Some(answered) = &idempotency
        && ctx.store.recall(tenant, &answered.key, now).await?.is_some()
    {
        return Ok((executions::get(ctx, tenant, execution).await?, true));
    }
    let (targets, note, grace_ms) = (vec![target], cancel.note, cancel.grace_ms);
    let batch = CancelBatch { tenant, targets, note, now, grace_ms, idempotency };
    let mut cancelled = ctx.store.cancel(batch).await?;
    dispatcher.send(cancelled.ready);
    match cancelled.verdicts.pop() {
        Some(CancelVerdict::Done) => {
            lines::ended(ctx, execution).await;
            Ok((executions::get(ctx, tenant, execution).await?, false))
        }
        Some(CancelVerdict::Asked { .. }) => Ok((executions::get(ctx, tenant, execution).await?, false)),
        Some(CancelVerdict::Stale { state }) => {
            let message = format!("{execution} is {} already", state.as_str());
            Err(Error::new(Kind::Conflict, message).with_code("execution_final"))
        }
        Some(CancelVerdict::Gone) | None => Err(missing(execution)),
    }
}
