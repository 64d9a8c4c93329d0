//! Fires that somebody asks for, whatever the schedule of the job.

use crate::context::Context;
use crate::dispatcher::Dispatcher;
use crate::executions::{self, named};
use crate::jobs;
use campanile_model::execution::Execution;
use campanile_model::ids::FireKind;
use campanile_model::store::{Fire, FireBatch, FireVerdict, JobKey, Waiting};
use campanile_model::{Error, ExecutionId, Kind, Result, TenantId};
use std::sync::Arc;

/// Fires a job now. With a key, asking again names the same execution, and says that it was asked before.
pub async fn run_now(
    ctx: &Context,
    dispatcher: &Dispatcher,
    tenant: TenantId,
    key: &JobKey,
    caller_key: Option<String>,
) -> Result<(Execution, bool)> {
    let job = jobs::find(ctx, tenant, key).await?;
    let now = ctx.clock.now();
    let salt = ctx.random.next().to_be_bytes();
    let execution = ExecutionId::manual(tenant, job.id, now, caller_key.as_ref().map_or(&salt[..], |k| k.as_bytes()));
    let dispatch = job.dispatch(execution, now);
    let scope = format!("{} run {}", tenant.0, job.id);
    let idempotency = caller_key.map(|key| named(execution, scope, key, now));
    let fire = Fire {
        dispatch: dispatch.clone(),
        kind: FireKind::Manual,
        wake_at: now,
        overlap: job.definition.overlap,
        covers_from: None,
        expect: job.definition.expect,
    };
    let batch = FireBatch { fences: Arc::new([]), fires: vec![fire], skips: Vec::new(), now, idempotency };
    match ctx.store.fire(batch).await? {
        FireVerdict::Fired(fired) => {
            ctx.metrics.fired.add(1);
            dispatcher.send(vec![Waiting { dispatch, wake_at: now }]);
            dispatcher.send(fired.ready);
            Ok((executions::get(ctx, tenant, execution).await?, false))
        }
        FireVerdict::Replayed(answer) => {
            let execution =
                answer.body.parse().map_err(|_| Error::new(Kind::Corrupt, "a remembered answer is no id"))?;
            Ok((executions::get(ctx, tenant, execution).await?, true))
        }
        FireVerdict::EpochLost(_) | FireVerdict::KeyReused => {
            Err(Error::new(Kind::Bug, "the store refused a manual fire"))
        }
    }
}
