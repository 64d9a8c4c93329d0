//! Starting attempts.

use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::ids::FireKind;
use campanile_model::lifecycle::{Event, State};
use campanile_model::shard::ShardFence;
use campanile_model::store::{
    AttemptFence, Claim, Claimed, Completion, Fire, FireVerdict, Fired, Granted, RunningQuery, Verdicts,
};
use campanile_model::{ExecutionId, Timestamp};
use std::sync::Arc;

/// Everything a runner needs.
pub async fn a_claim_grants_the_definition(store: Fixture) {
    let job = g::job_with(1, |d| {
        d.action = ActionSpec { kind: ActionKind::Webhook, config: "{\"url\":\"x\"}".into() };
        (d.payload, d.timeout_ms, d.retry.max_attempts) = ("{\"a\":1}".into(), 7_000, 9);
    });
    let job = store.create(&job).await;
    let id = g::fire(&job, DUE).dispatch.execution;
    store.fired(vec![g::fire(&job, DUE)]).await;
    let now = DUE.saturating_add_ms(500);
    let granted = store.granted(id, 0, now).await;
    let lease_until = now.saturating_add_ms(7_000 + g::LEASE_MS as i64);
    let expected = Granted {
        fence: AttemptFence { execution: id, attempt: 1, fence: granted.fence.fence },
        tenant: job.tenant,
        job: job.id,
        job_version: job.version,
        definition: job.definition.clone(),
        timeout_ms: 7_000,
        fire_at: DUE,
        lease_until,
        covers_from: None,
        attempts_from: 0,
        losses: 0,
        first_started_at: now,
        checkpoint: None,
        terminated: None,
    };
    assert_eq!(granted, expected);
    let running = store.execution(id).await;
    assert_eq!((running.state, running.attempt, running.fence), (State::Running, 1, granted.fence.fence));
    assert_eq!((running.started_at, running.claimed_at, running.wake_at), (Some(now), Some(now), lease_until));
    assert_eq!((running.deliveries, running.queued_at, running.first_started_at), (1, None, None));
    assert_eq!(running.worker.as_deref(), Some("worker-1"));
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].number, attempts[0].started_at, attempts[0].finished_at), (1, now, None));
}

/// S1: a claim is a guarded change of state.
pub async fn only_the_first_claim_wins(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let twice = vec![g::claim(id, 0, DUE), g::claim_by(id, 0, DUE, "other")];
    let claimed = store.claim(twice).await.unwrap().verdicts;
    assert!(matches!(claimed[0], Claimed::Granted(_)), "{claimed:?}");
    assert_eq!(claimed[1], Claimed::Stale { state: State::Running });
    for attempt in [0, 1, 2] {
        assert_eq!(store.claimed(id, attempt, DUE).await, Claimed::Stale { state: State::Running });
    }
    let nobody = ExecutionId::floor(DUE);
    assert_eq!(store.claimed(nobody, 0, DUE).await, Claimed::Gone);
}

/// Never early: what was made ahead waits for its instant.
pub async fn nothing_starts_early(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let before = store.execution(id).await;
    let early = DUE.saturating_add_ms(-1);
    assert_eq!(store.claimed(id, 0, early).await, Claimed::Early { wake_at: DUE });
    assert_eq!(store.execution(id).await, before);
    store.granted(id, 0, DUE).await;
}

/// A duplicate message of an earlier attempt.
pub async fn a_wrong_attempt_loses(store: Fixture) {
    let (_, id) = store.pending(1).await;
    assert_eq!(store.claimed(id, 1, DUE).await, Claimed::Stale { state: State::Pending });
    store.granted(id, 0, DUE).await;
}

/// Made ahead under a version that is no more when the instant comes.
pub async fn a_changed_job_discards_what_was_made_ahead(store: Fixture) {
    let (job, id) = store.pending(1).await;
    store.change(&job, g::at(55_000), g::define(&job, |d| d.timeout_ms = 1)).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
    let skipped = store.execution(id).await;
    assert_eq!((skipped.state, skipped.reason), (State::Skipped, Some(Reason::StaleVersion)));
    assert_eq!((skipped.attempt, skipped.finished_at), (0, Some(DUE)));
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Stale { state: State::Skipped });
}

/// The same by a pause, which says so.
pub async fn a_paused_job_discards_what_was_made_ahead(store: Fixture) {
    let (job, id) = store.pending(1).await;
    store.change(&job, g::at(55_000), g::Change::Pause(None)).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::Paused));
    assert_eq!(store.execution(id).await.reason, Some(Reason::Paused));
}

/// An instant at or before a change belongs to the version before it.
pub async fn an_instant_before_the_change_runs(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let (other, second) = store.pending(2).await;
    store.change(&job, DUE, g::define(&job, |d| d.timeout_ms = 1)).await;
    store.change(&other, DUE, g::Change::Pause(None)).await;
    store.granted(id, 0, DUE).await;
    store.granted(second, 0, DUE).await;
}

/// Whenever it was deleted.
pub async fn a_deleted_job_runs_nothing(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let manual = g::manual_fire(&job, DUE, "x");
    assert_eq!(store.fired(vec![manual.clone()]).await, [Fired::New]);
    let later = DUE.saturating_add_ms(500);
    store.change(&job, later, g::Change::Delete).await;
    for execution in [id, manual.dispatch.execution] {
        assert_eq!(store.claimed(execution, 0, later).await, Claimed::Discarded(Reason::JobDeleted));
    }
}

/// Somebody asked for it, and means the job as it is.
pub async fn a_manual_fire_survives_a_change(store: Fixture) {
    let job = store.job(1).await;
    let manual = g::manual_fire(&job, DUE, "x");
    store.fired(vec![manual.clone()]).await;
    store.change(&job, g::at(55_000), g::Change::Pause(None)).await;
    store.granted(manual.dispatch.execution, 0, DUE).await;
}

/// Over all executions, so that a target can compare them.
pub async fn fences_grow(store: Fixture) {
    let mut last = 0;
    for n in 1..=5 {
        let (_, id) = store.pending(n).await;
        let fence = store.granted(id, 0, DUE).await.fence.fence;
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

/// What a runner is told beside the definition, and what the row says of its way there.
pub async fn a_claim_tells_what_came_before(store: Fixture) {
    let job = store.job(1).await;
    let fire = Fire { covers_from: Some(g::at(10)), ..g::fire(&job, DUE) };
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let queued =
        |attempt, now: Timestamp| Claim { queued_at: Some(now.saturating_add_ms(-7)), ..g::claim(id, attempt, now) };
    let claim = async |claim| match store.claim(vec![claim]).await.unwrap().verdicts.remove(0) {
        Claimed::Granted(granted) => *granted,
        other => panic!("{other:?}"),
    };
    let first = claim(queued(0, DUE)).await;
    assert_eq!((first.covers_from, first.first_started_at, first.losses), (Some(g::at(10)), DUE, 0));
    let row = store.execution(id).await;
    assert_eq!((row.covers_from, row.queued_at, row.claimed_at), (Some(g::at(10)), Some(g::at(59_993)), Some(DUE)));
    let lost = g::complete(&first, Event::FailRetryable, AttemptOutcome::WorkerLost, DUE);
    // The runner says when it really started; what is told later is that.
    let (started_at, wake_at) = (DUE.saturating_add_ms(3), lost.wake_at);
    store.completed(Completion { started_at, ..lost }).await;
    let second = claim(queued(1, wake_at)).await;
    assert_eq!((second.first_started_at, second.losses, second.attempts_from), (started_at, 1, 0));
    let row = store.execution(id).await;
    assert_eq!((row.first_started_at, row.started_at), (Some(started_at), Some(wake_at)));
    assert_eq!((row.deliveries, row.losses), (2, 1));
    let failed = g::complete(&second, Event::FailRetryable, AttemptOutcome::Failed, wake_at);
    let wake_at = failed.wake_at;
    store.completed(failed).await;
    let third = claim(queued(2, wake_at)).await;
    assert_eq!((third.first_started_at, third.losses), (started_at, 1), "a failure is no loss");
}

/// A fire may start later than its instant, and is not claimed before.
pub async fn a_fire_starts_when_it_may(store: Fixture) {
    let job = store.job(1).await;
    let wake_at = DUE.saturating_add_ms(5_000);
    let fire = Fire { wake_at, ..g::fire(&job, DUE) };
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Early { wake_at });
    store.granted(id, 0, wake_at).await;
}

/// All attempts together: the last one gets what is left.
pub async fn a_time_limit_of_all_attempts_shortens_the_last(store: Fixture) {
    let job = g::job_with(1, |d| d.retry.total_timeout_ms = Some(40_000));
    store.create(&job).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let first = store.granted(id, 0, DUE).await;
    assert_eq!(first.timeout_ms, 30_000);
    let failed = g::complete(&first, Event::FailRetryable, AttemptOutcome::Failed, g::at(80_000));
    let failed = Completion { started_at: DUE, ..failed };
    store.completed(failed).await;
    let second = store.granted(id, 1, g::at(85_000)).await;
    assert_eq!((second.timeout_ms, second.first_started_at), (15_000, DUE));
    assert_eq!(second.lease_until, g::at(100_000 + g::LEASE_MS as i64));
    let running = store.load_running(&RunningQuery::Of(vec![id])).await.unwrap().remove(0);
    assert_eq!((running.timeout_ms, running.first_started_at), (15_000, DUE));
    // Too late for any: it gets a moment, and its end says why.
    let failed = g::complete(&second, Event::FailRetryable, AttemptOutcome::Failed, g::at(99_000));
    store.completed(failed).await;
    assert_eq!(store.granted(id, 2, g::at(200_000)).await.timeout_ms, 1);
}

/// Somebody asked for them, or another run of their job: kinds that no schedule repeats need the same care when they start.
pub async fn a_backfill_runs_under_any_version(store: Fixture) {
    let job = store.job(1).await;
    let fire = Fire { kind: FireKind::Backfill, ..g::fire(&job, DUE) };
    let id = fire.dispatch.execution;
    let none: Arc<[ShardFence]> = Arc::new([]);
    assert_eq!(store.fire(batch(none, vec![fire])).await.unwrap(), FireVerdict::Fired(Verdicts::of(vec![Fired::New])));
    assert_eq!(store.execution(id).await.kind, FireKind::Backfill);
    store.change(&job, g::at(55_000), g::Change::Pause(None)).await;
    store.granted(id, 0, DUE).await;
}
