//! Cancelling.

use super::lives::{counted, counts};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{
    Answer, Applied, CallerKey, CancelBatch, CancelTarget, CancelVerdict, Claimed, Extended, Fired, Idempotency,
    RunningQuery,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};

/// A cancel acknowledged before the start means no start.
pub async fn a_waiting_execution_is_cancelled_and_never_starts(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let now = g::at(59_000);
    assert_eq!(store.cancelled(id, now).await, CancelVerdict::Done);
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Stale { state: State::Cancelled });
    let cancelled = store.execution(id).await;
    assert_eq!((cancelled.state, cancelled.reason), (State::Cancelled, Some(Reason::CancelledByUser)));
    assert_eq!((cancelled.finished_at, cancelled.outcome, cancelled.attempt), (Some(now), None, 0));

    let (_, retrying) = store.pending(2).await;
    let granted = store.granted(retrying, 0, DUE).await;
    let failed = g::complete(&granted, Event::FailRetryable, AttemptOutcome::Failed, DUE);
    store.complete(vec![failed]).await.unwrap();
    assert_eq!(store.cancelled(retrying, DUE).await, CancelVerdict::Done);
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
    assert_eq!(store.cancelled(id, now).await, CancelVerdict::Done);
    let before = store.execution(id).await;
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, now);
    assert_eq!(store.completed(done).await, Applied::Stale { state: State::Cancelled });
    assert_eq!(store.execution(id).await, before);
    let attempts = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!((attempts[0].outcome, attempts[0].finished_at), (Some(AttemptOutcome::Cancelled), Some(now)));
}

/// Completed first: the cancel is told so.
pub async fn a_final_state_cannot_be_cancelled(store: Fixture) {
    let (_, id) = store.pending(1).await;
    store.complete(vec![g::complete_unclaimed(g::claim(id, 0, DUE))]).await.unwrap();
    let before = store.execution(id).await;
    let nobody = ExecutionId::floor(DUE);
    let verdicts = store.cancel(g::cancel(&[id, nobody], DUE)).await.unwrap().verdicts;
    assert_eq!(verdicts, [CancelVerdict::Stale { state: State::Succeeded }, CancelVerdict::Gone]);
    assert_eq!(store.execution(id).await, before);
}

/// I13: no tenant touches another's.
pub async fn other_tenants_cannot_cancel(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let before = store.execution(id).await;
    let foreign = CancelBatch { tenant: TenantId(2), ..g::cancel(&[id], DUE) };
    assert_eq!(store.cancel(foreign).await.unwrap().verdicts, [CancelVerdict::Gone]);
    assert_eq!(store.execution(id).await, before);
}

fn later(ms: i64) -> Timestamp {
    DUE.saturating_add_ms(ms)
}

/// The note of whoever cancelled stays with it.
pub async fn a_note_is_kept(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let batch = CancelBatch { note: Some("not today".into()), ..g::cancel(&[id], DUE) };
    assert_eq!(store.cancel(batch).await.unwrap().verdicts, [CancelVerdict::Done]);
    assert_eq!(store.execution(id).await.note.as_deref(), Some("not today"));
}

/// It gets some time to stop by itself, and no more: its lease ends, and nothing prolongs it.
pub async fn an_external_worker_is_asked_to_stop(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let ask = |now: i64, grace_ms| CancelBatch { grace_ms, note: Some("stop".into()), ..g::cancel(&[id], later(now)) };
    let verdict = async |batch| store.cancel(batch).await.unwrap().verdicts.remove(0);
    assert_eq!(verdict(ask(100, Some(5_000))).await, CancelVerdict::Asked { until: later(5_100) });
    let asked = store.execution(id).await;
    assert_eq!((asked.state, asked.cancel_requested_at), (State::Running, Some(later(100))));
    assert_eq!((asked.wake_at, asked.note.as_deref()), (later(5_100), Some("stop")));
    assert_eq!(
        verdict(ask(200, Some(9_000))).await,
        CancelVerdict::Asked { until: later(5_100) },
        "the earlier instant"
    );
    assert_eq!(verdict(ask(300, Some(1_000))).await, CancelVerdict::Asked { until: later(1_300) });
    assert_eq!(store.execution(id).await.cancel_requested_at, Some(later(100)));
    let cancel = Extended::Cancel { until: later(1_300), reason: Some(Reason::CancelledByUser) };
    let beat = g::extension(granted.fence, later(400), later(99_000));
    assert_eq!(store.extend(vec![beat]).await.unwrap(), [cancel]);
    assert_eq!(
        store.load_running(&RunningQuery::Expired { now: later(1_301), limit: 10 }).await.unwrap()[0].fence,
        granted.fence
    );
    // The reaper ends it, as `settle` says of whoever was asked to stop.
    let gone = g::complete(&granted, Event::Cancel, AttemptOutcome::WorkerLost, later(1_400));
    assert_eq!(store.completed(gone).await, Applied::Done);
    assert_eq!(store.execution(id).await.state, State::Cancelled);
    assert_eq!(verdict(ask(2_000, None)).await, CancelVerdict::Stale { state: State::Cancelled });
}

/// It may succeed before it stops: a completion is a completion.
pub async fn who_was_asked_to_stop_may_still_complete(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let ask = CancelBatch { grace_ms: Some(5_000), ..g::cancel(&[id], later(100)) };
    store.cancel(ask.clone()).await.unwrap();
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, later(200));
    assert_eq!(store.completed(done).await, Applied::Done);
    let verdicts = store.cancel(ask).await.unwrap().verdicts;
    assert_eq!(verdicts, [CancelVerdict::Stale { state: State::Succeeded }]);
    assert_eq!(store.execution(id).await.state, State::Succeeded);
}

/// A lease that ends before the grace is not prolonged by being asked.
pub async fn asking_never_prolongs(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    let ask = CancelBatch { grace_ms: Some(u64::MAX), ..g::cancel(&[id], DUE) };
    let verdicts = store.cancel(ask).await.unwrap().verdicts;
    assert_eq!(verdicts, [CancelVerdict::Asked { until: granted.lease_until }]);
}

/// Whoever would try it again has not seen that it was asked to stop, and is told to look.
pub async fn who_was_asked_to_stop_is_not_tried_again(store: Fixture) {
    let (_, id) = store.pending(1).await;
    let granted = store.granted(id, 0, DUE).await;
    store.cancel(CancelBatch { grace_ms: Some(5_000), ..g::cancel(&[id], later(1)) }).await.unwrap();
    let before = store.execution(id).await;
    for (event, outcome) in [
        (Event::FailRetryable, AttemptOutcome::Failed),
        (Event::Snooze, AttemptOutcome::Snoozed),
        (Event::Release, AttemptOutcome::Released),
    ] {
        let again = g::complete(&granted, event, outcome, later(2));
        assert_eq!(store.completed(again).await, Applied::Stale { state: State::Running }, "{event:?}");
    }
    assert_eq!(store.execution(id).await, before, "the request stays");
    let failed = g::complete(&granted, Event::Cancel, AttemptOutcome::Failed, later(3));
    assert_eq!(store.completed(failed).await, Applied::Done);
    assert_eq!(store.execution(id).await.state, State::Cancelled);
}

/// A node ends what it runs, so nobody waits for it; and without grace nobody is waited for.
pub async fn a_nodes_attempt_ends_at_once(store: Fixture) {
    for (n, worker, grace_ms) in [(1, "node:a", Some(5_000)), (2, "node:a", None), (3, "worker-1", None)] {
        let (_, id) = store.pending(n).await;
        let claimed = store.claim(vec![g::claim_by(id, 0, DUE, worker)]).await.unwrap().verdicts.remove(0);
        let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
        let batch = CancelBatch { grace_ms, ..g::cancel(&[id], later(10)) };
        assert_eq!(store.cancel(batch).await.unwrap().verdicts, [CancelVerdict::Done]);
        let row = store.execution(id).await;
        assert_eq!((row.state, row.finished_at), (State::Cancelled, Some(later(10))));
        assert_eq!((row.reason, row.outcome), (Some(Reason::CancelledByUser), Some(AttemptOutcome::Cancelled)));
        let late = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, later(11));
        assert_eq!(store.completed(late).await, Applied::Stale { state: State::Cancelled });
    }
}

/// Made before it comes, and cancelled already: when the schedule fires it, it is there.
pub async fn a_fire_that_has_not_come_is_cancelled(store: Fixture) {
    let job = store.job(1).await;
    let fire = g::fire(&job, later(60_000));
    let id = fire.dispatch.execution;
    let target = CancelTarget::Fire(Box::new(fire.clone()));
    let note = Some("holiday".to_owned());
    let batch = CancelBatch { targets: vec![target.clone()], note, ..g::cancel(&[], DUE) };
    assert_eq!(store.cancel(batch.clone()).await.unwrap().verdicts, [CancelVerdict::Done]);
    let row = store.execution(id).await;
    assert_eq!((row.state, row.reason), (State::Cancelled, Some(Reason::CancelledByUser)));
    assert_eq!((row.fire_at, row.finished_at, row.note.as_deref()), (later(60_000), Some(DUE), Some("holiday")));
    assert_eq!((row.fired_at, row.attempt, row.kind), (DUE, 0, fire.kind));
    let again = store.cancel(batch).await.unwrap().verdicts;
    assert_eq!(again, [CancelVerdict::Stale { state: State::Cancelled }]);
    assert_eq!(store.fired(vec![fire.clone()]).await, [Fired::Exists]);
    let newer = Job { version: 9, ..job.clone() };
    assert_eq!(store.fired(vec![g::fire(&newer, later(60_000))]).await, [Fired::Exists]);
    assert_eq!(store.execution(id).await.state, State::Cancelled);
    let listed = super::lives::pages(
        &store,
        campanile_model::store::ExecutionQuery { job: Some(job.id), ..super::lives::all(10) },
    );
    assert_eq!(listed.await.iter().map(|row| row.id).collect::<Vec<_>>(), [id], "its job's history has it");
    // One that has come is cancelled as it is.
    let (other, there) = store.pending(2).await;
    let target = CancelTarget::Fire(Box::new(g::fire(&other, DUE)));
    let batch = CancelBatch { targets: vec![target], ..g::cancel(&[], DUE) };
    assert_eq!(store.cancel(batch).await.unwrap().verdicts, [CancelVerdict::Done]);
    assert_eq!(store.execution(there).await.fired_at, g::at(50_000));
    assert_eq!(counts(&store).await, counted(&store).await);
}

/// Other tenants' fires can neither be cancelled nor made.
pub async fn other_tenants_fires_are_left_alone(store: Fixture) {
    let (job, id) = store.pending(1).await;
    for fire_at in [DUE, later(60_000)] {
        let target = CancelTarget::Fire(Box::new(g::fire(&job, fire_at)));
        let batch = CancelBatch { tenant: TenantId(2), targets: vec![target], ..g::cancel(&[], DUE) };
        assert_eq!(store.cancel(batch).await.unwrap().verdicts, [CancelVerdict::Gone]);
    }
    assert_eq!(store.execution(id).await.state, State::Pending);
    let never = g::fire(&job, later(60_000)).dispatch.execution;
    assert_eq!(store.get_executions(job.tenant, &[never]).await.unwrap(), [None]);
}

/// An answer is remembered when all of it happened, by this: cancelled now, or asked to stop now.
pub async fn an_answer_is_remembered_if_all_of_it_happened(store: Fixture) {
    let (_, waiting) = store.pending(1).await;
    let (_, running) = store.pending(2).await;
    store.granted(running, 0, DUE).await;
    let key = |text: &str| CallerKey { scope: "s".into(), text: text.into(), fingerprint: 7 };
    let answered = |text: &str| Idempotency {
        key: key(text),
        answer: Answer { status: 202, body: "x".into() },
        expires_at: later(100_000),
    };
    let cancel = async |ids: &[ExecutionId], name: &str| {
        let batch =
            CancelBatch { grace_ms: Some(5_000), idempotency: Some(answered(name)), ..g::cancel(ids, later(1)) };
        store.cancel(batch).await.unwrap();
        store.recall(TenantId::DEFAULT, &key(name), later(2)).await.unwrap().is_some()
    };
    assert!(cancel(&[waiting, running], "a").await);
    assert!(!cancel(&[running], "b").await, "it was asked before");
    assert!(!cancel(&[waiting], "c").await, "it was cancelled before");
    assert!(!cancel(&[ExecutionId::floor(DUE)], "d").await);
}
