//! Dead executions: how they are grouped, replayed and buried; and how losses lead there.

use super::lives::{counted, counts};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::{AttemptError, AttemptOutcome, Outcome, Reason, Response};
use campanile_model::fingerprint::fingerprint;
use campanile_model::job::Job;
use campanile_model::lifecycle::{self, Ended, Event, State};
use campanile_model::limits;
use campanile_model::overlap::Overlap;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{Applied, Claimed, Completion, DeadGroup, Fire, Granted, Resolve, RunningQuery};
use campanile_model::{ExecutionId, TenantId, Timestamp};

fn error(kind: &str, message: &str) -> Option<AttemptError> {
    Some(AttemptError { kind: kind.into(), message: message.into() })
}

fn died(granted: &Granted, error: Option<AttemptError>, now: Timestamp) -> Completion {
    let reason = Some(Reason::PermanentFailure);
    Completion { error, reason, ..g::complete(granted, Event::FailFinal, AttemptOutcome::Failed, now) }
}

/// A dead execution of job `n`, done to `target`.
async fn dead(store: &Fixture, n: u64, target: &str, error: Option<AttemptError>, now: Timestamp) -> ExecutionId {
    let job = Job { target: target.into(), ..g::job(n) };
    store.put(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let granted = store.granted(id, 0, DUE).await;
    assert_eq!(store.completed(died(&granted, error, now)).await, Applied::Done);
    id
}

async fn groups(store: &Fixture) -> Vec<DeadGroup> {
    store.dead_groups(TenantId::DEFAULT, 100).await.unwrap()
}

async fn replay(store: &Fixture, ids: &[ExecutionId], wake_at: Timestamp) -> Vec<Applied> {
    let replays = ids.iter().map(|&execution| Resolve::Replay { execution, wake_at }).collect();
    store.resolve_dead(TenantId::DEFAULT, replays, wake_at).await.unwrap().verdicts
}

/// By target, kind and message without what varies; most recently grown first.
pub async fn the_dead_are_grouped_by_what_they_died_of(store: Fixture) {
    assert_eq!(groups(&store).await, []);
    let a = dead(&store, 1, "send", error("http_503", "no answer after 30s"), g::at(70_000)).await;
    let b = dead(&store, 2, "send", error("http_503", "no answer after 31s"), g::at(71_000)).await;
    let other_target = dead(&store, 3, "bill", error("http_503", "no answer after 30s"), g::at(72_000)).await;
    let other_kind = dead(&store, 4, "send", error("http_500", "no answer after 30s"), g::at(69_000)).await;
    let found = groups(&store).await;
    let samples: Vec<ExecutionId> = found.iter().map(|group| group.sample).collect();
    assert_eq!(samples, [other_target, b, other_kind]);
    let expected = DeadGroup {
        fingerprint: fingerprint("send", "http_503", "no answer after 30s"),
        target: "send".into(),
        kind: "http_503".into(),
        message: "no answer after 31s".into(),
        count: 2,
        first_at: g::at(70_000),
        last_at: g::at(71_000),
        sample: b,
    };
    assert_eq!(found[1], expected);
    for id in [a, b] {
        assert_eq!(store.execution(id).await.fingerprint, Some(expected.fingerprint));
    }
    assert_eq!(store.dead_groups(TenantId::DEFAULT, 1).await.unwrap(), found[..1]);
    assert_eq!(store.dead_groups(TenantId(2), 10).await.unwrap(), []);
}

/// Many of one batch are one write of their group.
pub async fn a_batch_of_deaths_grows_its_groups(store: Fixture) {
    let jobs = store.jobs(40).await;
    store.fired(jobs.iter().map(|job| g::fire(job, DUE)).collect()).await;
    let claims = jobs.iter().map(|job| g::claim(g::fire(job, DUE).dispatch.execution, 0, DUE)).collect();
    let completions = store.claim(claims).await.unwrap().verdicts.into_iter().enumerate().map(|(i, claimed)| {
        let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
        died(&granted, error(["a", "b"][i % 2], "x"), g::at(70_000 + i as i64))
    });
    store.complete(completions.collect()).await.unwrap();
    let found = groups(&store).await;
    assert_eq!(found.iter().map(|group| (&*group.kind, group.count)).collect::<Vec<_>>(), [("b", 20), ("a", 20)]);
    assert_eq!((found[1].first_at, found[1].last_at), (g::at(70_000), g::at(70_038)));
}

/// Of a loss or a timeout that has no error of its own.
pub async fn a_death_without_an_error_has_a_group_too(store: Fixture) {
    for (n, outcome) in [(1, AttemptOutcome::WorkerLost), (2, AttemptOutcome::TimedOut), (3, AttemptOutcome::Failed)] {
        let (_, id) = store.pending(n).await;
        let granted = store.granted(id, 0, DUE).await;
        let now = g::at(70_000 + n as i64);
        store.completed(g::complete(&granted, Event::FailFinal, outcome, now)).await;
        assert!(store.execution(id).await.fingerprint.is_some());
    }
    let kinds: Vec<String> = groups(&store).await.into_iter().map(|group| group.kind).collect();
    assert_eq!(kinds, ["failed", "timeout", "worker_lost"]);
}

/// It waits again, its attempts are kept, and its policy begins anew.
pub async fn a_replay_keeps_the_attempts(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let first = store.granted(id, 0, DUE).await;
    let lost = g::complete(&first, Event::FailRetryable, AttemptOutcome::WorkerLost, DUE);
    let wake_at = lost.wake_at;
    store.completed(lost).await;
    let second = store.granted(id, 1, wake_at).await;
    let response = Some(Response { status: 500, body: vec![1], truncated: false });
    store.completed(Completion { response, ..died(&second, error("http_500", "no"), wake_at) }).await;
    let before = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(before.len(), 2);

    let now = g::at(500_000);
    let replay = Resolve::Replay { execution: id, wake_at: g::at(501_000) };
    let moved = store.resolve_dead(job.tenant, vec![replay], now).await.unwrap();
    assert_eq!(moved.verdicts, [Applied::Done]);
    let waiting = &moved.ready[0];
    assert_eq!((waiting.dispatch.execution, waiting.dispatch.attempt, waiting.wake_at), (id, 2, g::at(501_000)));
    assert_eq!(moved.ready.len(), 1);
    let row = store.execution(id).await;
    assert_eq!((row.state, row.reason, row.outcome, row.error), (State::Pending, None, None, None));
    assert_eq!((row.attempt, row.attempts_from, row.losses, row.deliveries), (2, 2, 0, 2));
    assert_eq!((row.fingerprint, row.finished_at), (None, None));
    assert_eq!(row.first_started_at, Some(before[0].started_at), "the first start stays the first");
    assert_eq!(store.list_attempts(job.tenant, id).await.unwrap(), before);
    assert_eq!(groups(&store).await, [], "the last one takes its group with it");

    assert_eq!(store.claimed(id, 2, now).await, Claimed::Early { wake_at: g::at(501_000) }, "not before its time");
    let third = store.granted(id, 2, g::at(501_000)).await;
    assert_eq!((third.fence.attempt, third.attempts_from, third.losses), (3, 2, 0));
    assert_eq!(third.first_started_at, g::at(501_000), "what counts for its policy begins here");
    let failed = g::complete(&third, Event::FailRetryable, AttemptOutcome::Failed, g::at(502_000));
    let failed = Completion { started_at: g::at(501_000), ..failed };
    let wake_at = failed.wake_at;
    store.completed(failed).await;
    let fourth = store.granted(id, 3, wake_at).await;
    assert_eq!(fourth.first_started_at, g::at(501_000));
    let running = store.load_running(&RunningQuery::Of(vec![id])).await.unwrap().remove(0);
    assert_eq!((running.first_started_at, running.attempts_from), (g::at(501_000), 2));
    store.completed(g::complete(&fourth, Event::Succeed, AttemptOutcome::Succeeded, wake_at)).await;
    let after = store.list_attempts(job.tenant, id).await.unwrap();
    assert_eq!(after.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(after[..2], before);
    assert_eq!(counts(&store).await, counted(&store).await);
}

/// All attempts together, from the replay on.
pub async fn a_replay_begins_the_total_time_anew(store: Fixture) {
    let retry = RetryPolicy { total_timeout_ms: Some(60_000), ..RetryPolicy::default() };
    let job = g::job_with(1, |d| d.retry = retry);
    store.put(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let first = store.granted(id, 0, DUE).await;
    store.completed(died(&first, None, g::at(61_000))).await;
    replay(&store, &[id], g::at(9_000_000)).await;
    assert_eq!(store.granted(id, 1, g::at(9_000_000)).await.timeout_ms, job.definition.timeout_ms);
}

/// Only the dead, and only one's own.
pub async fn only_the_dead_are_replayed_and_buried(store: Fixture) {
    let dead = dead(&store, 1, "t", error("x", "y"), DUE).await;
    let (_, pending) = store.pending(2).await;
    let nobody = ExecutionId::floor(DUE);
    let verdicts = [Applied::Stale { state: State::Pending }, Applied::Gone];
    assert_eq!(replay(&store, &[pending, nobody], DUE).await, verdicts);
    assert_eq!(
        store.resolve_dead(TenantId::DEFAULT, g::discard(vec![pending, nobody], "x"), DUE).await.unwrap().verdicts,
        verdicts
    );
    let before = store.execution(dead).await;
    let foreign =
        store.resolve_dead(TenantId(2), vec![Resolve::Replay { execution: dead, wake_at: DUE }], DUE).await.unwrap();
    assert_eq!((&foreign.verdicts[..], foreign.ready.len()), (&[Applied::Gone][..], 0));
    assert_eq!(
        store.resolve_dead(TenantId(2), g::discard(vec![dead], "x"), DUE).await.unwrap().verdicts,
        [Applied::Gone]
    );
    assert_eq!(store.execution(dead).await, before);
    assert_eq!(replay(&store, &[dead, dead], DUE).await, [Applied::Done, Applied::Stale { state: State::Pending }]);
}

/// Given up, with a note; what it died of can still be read.
pub async fn a_buried_execution_says_why(store: Fixture) {
    let a = dead(&store, 1, "t", error("x", "first"), g::at(70_000)).await;
    let b = dead(&store, 2, "t", error("x", "first"), g::at(71_000)).await;
    let attempts = store.list_attempts(TenantId::DEFAULT, b).await.unwrap();
    let verdicts = store
        .resolve_dead(TenantId::DEFAULT, g::discard(vec![b, b], "known, see 42"), g::at(80_000))
        .await
        .unwrap()
        .verdicts;
    assert_eq!(verdicts, [Applied::Done, Applied::Stale { state: State::Cancelled }]);
    let buried = store.execution(b).await;
    assert_eq!((buried.state, buried.reason), (State::Cancelled, Some(Reason::DiscardedByUser)));
    assert_eq!((buried.note.as_deref(), &buried.error), (Some("known, see 42"), &error("x", "first")));
    assert_eq!(buried.fingerprint, None);
    assert_eq!(store.list_attempts(TenantId::DEFAULT, b).await.unwrap(), attempts);
    let left = groups(&store).await;
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].count, left[0].sample), (1, a), "another one stands for the group");
    assert_eq!(replay(&store, &[b], DUE).await, [Applied::Stale { state: State::Cancelled }]);
    store.resolve_dead(TenantId::DEFAULT, g::discard(vec![a], "too"), g::at(80_000)).await.unwrap();
    assert_eq!(groups(&store).await, []);
    // An empty group forgets when it began.
    dead(&store, 3, "t", error("x", "first"), g::at(90_000)).await;
    assert_eq!(groups(&store).await[0].first_at, g::at(90_000));
    assert_eq!(counts(&store).await, counted(&store).await);
}

/// Losses are counted in the store, over runners and restarts; what `settle` makes of them ends what kills its runners.
pub async fn a_poison_execution_dies_whatever_its_policy(store: Fixture) {
    let policy = RetryPolicy { max_attempts: 1_000, ..RetryPolicy::default() };
    let job = g::job_with(1, |d| d.retry = policy);
    store.put(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let mut now = DUE;
    for loss in 0..limits::LOSSES_MAX {
        if loss == 2 {
            // Given back is not lost.
            let granted = store.granted(id, loss, now).await;
            let back = g::complete(&granted, Event::Release, AttemptOutcome::Released, now);
            now = back.wake_at;
            store.completed(back).await;
        }
        let row = store.execution(id).await;
        assert_eq!((row.state.is_final(), row.losses, row.attempt), (false, loss, loss));
        let granted = store.granted(id, row.attempt, now).await;
        assert_eq!(granted.losses, loss);
        lose(&store, &granted, &mut now).await;
    }
    let row = store.execution(id).await;
    assert_eq!((row.state, row.reason, row.losses), (State::Dead, Some(Reason::Poison), limits::LOSSES_MAX));
    assert_eq!(row.deliveries, limits::LOSSES_MAX + 1);
    assert_eq!(groups(&store).await[0].kind, "worker_lost");
}

async fn lose(store: &Fixture, granted: &Granted, now: &mut Timestamp) {
    let ended = Ended {
        attempt: granted.fence.attempt,
        attempts_from: granted.attempts_from,
        losses: granted.losses,
        first_started_at: granted.first_started_at,
        finished_at: *now,
        cancel_requested: None,
    };
    let settled = lifecycle::settle(&Outcome::Lost, ended, &granted.definition.retry, 7);
    let completion = Completion {
        reason: settled.reason,
        wake_at: settled.wake_at,
        attempt: settled.attempt,
        ..g::complete(granted, settled.event, AttemptOutcome::WorkerLost, *now)
    };
    assert_eq!(store.completed(completion).await, Applied::Done);
    *now = settled.wake_at;
}

/// A replay is neither skipped because another run is under way, nor does it end that: it waits.
pub async fn a_replay_waits_for_other_runs(store: Fixture) {
    for (n, overlap) in [(1, Overlap::Skip), (2, Overlap::TerminateOther)] {
        let job = g::job_with(n, |d| d.overlap = overlap);
        store.put(g::create(&job)).await;
        let fires = [Fire { overlap, ..g::fire(&job, DUE) }, Fire { overlap, ..g::fire(&job, g::at(61_000)) }];
        let [old, new] = fires.clone().map(|fire| fire.dispatch.execution);
        store.fired(vec![fires[0].clone()]).await;
        let granted = store.granted(old, 0, DUE).await;
        store.completed(died(&granted, None, DUE)).await;
        store.fired(vec![fires[1].clone()]).await;
        let running = store.granted(new, 0, g::at(61_000)).await;
        assert_eq!(replay(&store, &[old], g::at(62_000)).await, [Applied::Done]);
        assert_eq!(store.claimed(old, 1, g::at(62_000)).await, Claimed::Held { by: new, cancel: false }, "{overlap:?}");
        let done = g::complete(&running, Event::Succeed, AttemptOutcome::Succeeded, g::at(63_000));
        let moved = store.complete(vec![done]).await.unwrap();
        assert_eq!(moved.ready.len(), 1);
        store.granted(old, 1, g::at(63_000)).await;
    }
}

/// What was mended is what a replay runs by: its handler, its pool. Without its job there is nothing to run.
pub async fn a_replay_is_by_the_job_as_it_is_now(store: Fixture) {
    let id = dead(&store, 1, "old", None, g::at(70_000)).await;
    let job = store.get_job(g::job(1).id).await.unwrap();
    let mut other = (*job.definition).clone();
    (other.pool, other.timeout_ms) = ("other".into(), 7_000);
    let mended = store.change(&job, g::at(71_000), g::Change::Define(g::resolved(other, "new"))).await;
    let replays = vec![Resolve::Replay { execution: id, wake_at: g::at(72_000) }];
    let moved = store.resolve_dead(TenantId::DEFAULT, replays, g::at(72_000)).await.unwrap();
    let dispatch = &moved.ready[0].dispatch;
    assert_eq!((&*dispatch.target, &*dispatch.pool, dispatch.job_version), ("new", "other", 2));
    assert_eq!(counts(&store).await, counted(&store).await);
    let granted = store.granted(id, 1, g::at(72_000)).await;
    assert_eq!((granted.job_version, granted.timeout_ms), (2, 7_000));
    assert_eq!(store.execution(id).await.job_version, 2, "and it is recorded");
    store.completed(died(&granted, None, g::at(73_000))).await;
    store.change(&mended, g::at(74_000), g::Change::Delete).await;
    assert_eq!(replay(&store, &[id], g::at(75_000)).await, [Applied::Stale { state: State::Dead }]);
    assert_eq!(store.execution(id).await.state, State::Dead);
}
