//! Starting attempts, keeping them alive, and finding those that are not.

use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::Reason;
use campanile_model::job::JobState;
use campanile_model::lifecycle::State;
use campanile_model::store::{Applied, AttemptFence, Claimed, Extension, Fired, Granted};
use campanile_model::{ExecutionId, Timestamp};

/// Everything a runner needs, by the newest version of the job.
pub async fn a_claim_grants_the_current_definition(store: Fixture) {
    let (job, id) = store.pending(1).await;
    // Changed after the instant: it still runs, as the job is now.
    let now = DUE.saturating_add_ms(500);
    let job = store
        .change(&job, now, |job| {
            job.action = ActionSpec { kind: ActionKind::Webhook, config: "{\"url\":\"x\"}".into() };
            job.payload = "{\"a\":1}".into();
            job.timeout_ms = 7_000;
            job.retry.max_attempts = 9;
        })
        .await;
    let granted = store.granted(id, 0, now).await;
    let lease_until = now.saturating_add_ms(7_000 + g::LEASE_MS as i64);
    let expected = Granted {
        fence: AttemptFence { execution: id, attempt: 1, fence: granted.fence.fence },
        tenant: job.tenant,
        job: job.id,
        job_version: job.version,
        job_name: job.name.as_str().into(),
        action: job.action.clone(),
        payload: job.payload.clone(),
        retry: job.retry,
        timeout_ms: 7_000,
        fire_at: DUE,
        lease_until,
    };
    assert_eq!(granted, expected);
    let running = store.execution(id).await;
    assert_eq!((running.state, running.attempt, running.fence), (State::Running, 1, granted.fence.fence));
    assert_eq!((running.started_at, running.wake_at), (Some(now), lease_until));
    assert_eq!(running.worker.as_deref(), Some("worker-1"));
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].number, attempts[0].started_at, attempts[0].finished_at), (1, now, None));
}

/// S1: a claim is a guarded change of state.
pub async fn only_the_first_claim_wins(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let twice = vec![g::claim(id, 0, DUE), g::claim_by(id, 0, DUE, "other")];
    let claimed = store.claim(twice).await.unwrap();
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
    assert_eq!(store.claimed(id, 0, early).await, Claimed::Stale { state: State::Pending });
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
    store.change(&job, g::at(55_000), |job| job.timeout_ms = 1).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
    let skipped = store.execution(id).await;
    assert_eq!((skipped.state, skipped.reason), (State::Skipped, Some(Reason::StaleVersion)));
    assert_eq!((skipped.attempt, skipped.finished_at), (0, Some(DUE)));
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Stale { state: State::Skipped });
}

/// The same by a pause, which says so.
pub async fn a_paused_job_discards_what_was_made_ahead(store: Fixture) {
    let (job, id) = store.pending(1).await;
    store.change(&job, g::at(55_000), |job| job.state = JobState::Paused).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::Paused));
    assert_eq!(store.execution(id).await.reason, Some(Reason::Paused));
}

/// An instant at or before a change belongs to the version before it.
pub async fn an_instant_before_the_change_runs(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let (other, second) = store.pending(2).await;
    store.change(&job, DUE, |job| job.timeout_ms = 1).await;
    store.change(&other, DUE, |job| job.state = JobState::Paused).await;
    store.granted(id, 0, DUE).await;
    store.granted(second, 0, DUE).await;
}

/// Whenever it was deleted.
pub async fn a_deleted_job_runs_nothing(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let manual = g::manual_fire(&job, DUE, "x");
    assert_eq!(store.fired(vec![manual.clone()]).await, [Fired::New]);
    let later = DUE.saturating_add_ms(500);
    store.change(&job, later, |job| job.state = JobState::Deleted).await;
    for execution in [id, manual.dispatch.execution] {
        assert_eq!(store.claimed(execution, 0, later).await, Claimed::Discarded(Reason::JobDeleted));
    }
}

/// Somebody asked for it, and means the job as it is.
pub async fn a_manual_fire_survives_a_change(store: Fixture) {
    let job = store.job(1).await;
    let manual = g::manual_fire(&job, DUE, "x");
    store.fired(vec![manual.clone()]).await;
    store.change(&job, g::at(55_000), |job| job.state = JobState::Paused).await;
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

/// By fence and attempt, while it runs; never shorter.
pub async fn a_lease_is_extended_by_its_holder_only(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let later = granted.lease_until.saturating_add_ms(5_000);
    let extend = async |fence, lease_until| store.extend(vec![Extension { fence, lease_until }]).await.unwrap()[0];
    assert_eq!(extend(granted.fence, later).await, Applied::Done);
    assert_eq!(store.execution(id).await.wake_at, later);
    assert_eq!(extend(granted.fence, DUE).await, Applied::Done);
    assert_eq!(store.execution(id).await.wake_at, later);
    let before = store.execution(id).await;
    let running = Applied::Stale { state: State::Running };
    let fence = granted.fence;
    for wrong in [AttemptFence { attempt: 2, ..fence }, AttemptFence { fence: fence.fence + 1, ..fence }] {
        assert_eq!(extend(wrong, Timestamp::LATEST).await, running);
    }
    let nobody = AttemptFence { execution: ExecutionId::floor(DUE), ..fence };
    assert_eq!(extend(nobody, Timestamp::LATEST).await, Applied::Gone);
    assert_eq!(store.execution(id).await, before);
}

/// By membership for nodes, by time for everybody else.
pub async fn expired_leases_and_lost_nodes_are_found(store: Fixture) {
    let mut granted = Vec::new();
    for (n, worker) in [(1, "worker-1"), (2, "node:a"), (3, "node:b")] {
        let (_, id) = store.pending(n).await;
        let claimed = store.claim(vec![g::claim_by(id, 0, DUE, worker)]).await.unwrap().remove(0);
        let Claimed::Granted(it) = claimed else { panic!("{claimed:?}") };
        granted.push(*it);
    }
    let expired = async |now, nodes: &[&str]| -> Vec<AttemptFence> {
        let nodes: Vec<String> = nodes.iter().map(|&node| node.into()).collect();
        store.load_expired(now, &nodes, 10).await.unwrap().into_iter().map(|expired| expired.fence).collect()
    };
    assert_eq!(expired(DUE, &["a", "b"]).await, []);
    assert_eq!(expired(DUE, &["a"]).await, [granted[2].fence]);
    assert_eq!(expired(granted[0].lease_until, &["a", "b"]).await, [], "a lease includes its last instant");
    let over = granted[0].lease_until.saturating_add_ms(1);
    assert_eq!(expired(over, &["a", "b"]).await, [granted[0].fence], "nodes that live keep theirs");
    assert_eq!(expired(over, &[]).await.len(), 3);
    assert_eq!(store.load_expired(over, &[], 2).await.unwrap().len(), 2);
    let one = store.load_expired(DUE, &["a".into()], 10).await.unwrap().remove(0);
    assert_eq!((one.started_at, one.retry, one.dispatch.attempt), (DUE, granted[2].retry, 1));
    assert_eq!((one.dispatch.execution, one.dispatch.fire_at), (granted[2].fence.execution, DUE));
}
