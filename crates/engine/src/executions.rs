//! Executions as callers ask for them: one by its id, and the answer that names one under a caller's key.

use crate::context::Context;
use campanile_model::execution::Execution;
use campanile_model::store::{Answer, CallerKey, Idempotency};
use campanile_model::{Error, ExecutionId, Kind, Result, TenantId, Timestamp, limits};

pub async fn get(ctx: &Context, tenant: TenantId, execution: ExecutionId) -> Result<Execution> {
    let found = ctx.store.get_executions(tenant, &[execution]).await?.pop().flatten();
    found.ok_or_else(|| missing(execution))
}

/// There is no such execution.
pub(crate) fn missing(execution: ExecutionId) -> Error {
    Error::new(Kind::NotFound, format!("no execution has the id {execution}")).with_code("execution_not_found")
}

/// The answer that names an execution, under a caller's key.
pub(crate) fn named(execution: ExecutionId, scope: String, text: String, now: Timestamp) -> Idempotency {
    Idempotency {
        key: CallerKey { scope, text, fingerprint: 0 },
        answer: Answer { status: 202, body: execution.to_string() },
        expires_at: now.saturating_add_ms(limits::IDEMPOTENCY_MS as i64),
    }
}
