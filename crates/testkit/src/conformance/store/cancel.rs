//! Cancelling.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{Applied, Claimed};
use campanile_model::{ExecutionId, TenantId};

/// A cancel acknowledged before the start means no start.
pub async fn a_waiting_execution_is_cancelled_and_never_starts(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let now = g::at(59_000);
    assert_eq!(store.cancel(job.tenant, vec![id], now, None).await.unwrap(), [Applied::Done]);
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Stale { state: State::Cancelled });
    let cancelled = store.execution(id).await;
    assert_eq!((cancelled.state, cancelled.reason), (State::Cancelled, Some(Reason::CancelledByUser)));
    assert_eq!((cancelled.finished_at, cancelled.outcome, cancelled.attempt), (Some(now), None, 0));

    let (_, retrying) = store.pending(2).await;
    let granted = store.granted(retrying, 0, DUE).await;
    let failed = g::complete(&granted, Event::FailRetryable, AttemptOutcome::Failed, DUE);
    store.complete(vec![failed]).await.unwrap();
    assert_eq!(store.cancel(job.tenant, vec![retrying], DUE, None).await.unwrap(), [Applied::Done]);
    assert_eq!(store.claimed(retrying, 1, g::at(99_000)).await, Claimed::Stale { state: State::Cancelled });
    let attempts = store.list_attempts(job.tenant, retrying).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::Failed), "its attempt had failed before");
}

/// SUCCESS never overwrites CANCELLED.
pub async fn a_running_attempt_loses_to_a_cancel(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let now = DUE.saturating_add_ms(50);
    assert_eq!(store.cancel(job.tenant, vec![id], now, None).await.unwrap(), [Applied::Done]);
    let before = store.execution(id).await;
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, now);
    assert_eq!(store.complete(vec![done]).await.unwrap(), [Applied::Stale { state: State::Cancelled }]);
    assert_eq!(store.execution(id).await, before);
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!((attempts[0].outcome, attempts[0].finished_at), (Some(AttemptOutcome::Cancelled), Some(now)));
}

/// Completed first: the cancel is told so.
pub async fn a_final_state_cannot_be_cancelled(store: Fixture) {
    let (job, id) = store.pending(1).await;
    store.complete(vec![g::complete_unclaimed(g::claim(id, 0, DUE))]).await.unwrap();
    let before = store.execution(id).await;
    let nobody = ExecutionId::floor(DUE);
    let verdicts = store.cancel(job.tenant, vec![id, nobody], DUE, None).await.unwrap();
    assert_eq!(verdicts, [Applied::Stale { state: State::Succeeded }, Applied::Gone]);
    assert_eq!(store.execution(id).await, before);
}

/// I13: no tenant touches another's.
pub async fn other_tenants_cannot_cancel(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let before = store.execution(id).await;
    assert_eq!(store.cancel(TenantId(2), vec![id], DUE, None).await.unwrap(), [Applied::Gone]);
    assert_eq!(store.execution(id).await, before);
}
