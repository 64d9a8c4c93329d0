//! Making fires durable, once, by the current owner only.

use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::execution::{AttemptOutcome, Execution, Reason};
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::job::{Job, Priority};
use campanile_model::lifecycle::{Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::shard::{self, Epoch, ShardFence, ShardId, shard_of};
use campanile_model::store::{Claimed, Fire, FireBatch, FireVerdict, Fired, Skip, Verdicts, WaitingQuery};
use campanile_model::{TenantId, Timestamp};
use std::sync::Arc;

/// All of its fields.
pub async fn an_execution_is_born_pending(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let expected = Execution {
        id,
        tenant: job.tenant,
        job: job.id,
        job_name: job.name().to_owned(),
        job_version: 1,
        fire_at: DUE,
        kind: FireKind::Schedule,
        state: State::Pending,
        reason: None,
        attempt: 0,
        fence: 0,
        priority: job.definition.priority,
        pool: job.definition.pool.clone(),
        action: job.definition.action.kind,
        target: job.target.clone(),
        overlap: job.definition.overlap,
        covers_from: None,
        wake_at: DUE,
        fired_at: g::at(50_000),
        queued_at: None,
        claimed_at: None,
        first_started_at: None,
        started_at: None,
        finished_at: None,
        worker: None,
        outcome: None,
        error: None,
        fingerprint: None,
        deliveries: 0,
        losses: 0,
        attempts_from: 0,
        cancel_requested_at: None,
        note: None,
    };
    assert_eq!(store.execution(id).await, expected);
    assert_eq!(store.list_attempts(job.tenant, id).await.unwrap(), []);
}

/// I1: at most one execution per (job, fire_at).
pub async fn firing_twice_inserts_once(store: Fixture) {
    let job = store.job(1).await;
    let fire = g::fire(&job, DUE);
    assert_eq!(store.fired(vec![fire.clone(), fire.clone()]).await, [Fired::New, Fired::Exists]);
    let before = store.execution(fire.dispatch.execution).await;
    assert_eq!(store.fired(vec![fire.clone()]).await, [Fired::Exists]);
    assert_eq!(store.execution(fire.dispatch.execution).await, before);
}

/// The same in bulk, where a store may write without looking first: what is new is born whole, what is there stays as it is.
pub async fn many_fires_of_which_some_are_there_insert_the_others(store: Fixture) {
    let jobs = store.jobs(150).await;
    let fires: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    assert_eq!(store.fired(fires[..100].to_vec()).await, [Fired::New; 100]);
    let (first, later) = (fires[0].dispatch.execution, fires[149].dispatch.execution);
    let before = store.execution(first).await;
    assert!(matches!(store.claimed(first, 0, DUE).await, Claimed::Granted(_)));
    let expected: Vec<Fired> = (0..150).map(|n| if n < 100 { Fired::Exists } else { Fired::New }).collect();
    assert_eq!(store.fired(fires.clone()).await, expected);
    assert_eq!(store.execution(first).await.state, State::Running);
    let (job, execution) = (jobs[149].clone(), store.execution(later).await);
    let same = Execution { id: later, job: job.id, job_name: job.name().to_owned(), target: job.target, ..before };
    assert_eq!(execution, same);
    let later: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE.saturating_add_ms(1_000))).collect();
    assert_eq!(store.fired(later.clone()).await, [Fired::New; 150]);
    assert_eq!(store.fired(later).await, [Fired::Exists; 150]);
}

/// I3: only the current epoch fires; a batch is all or nothing.
pub async fn an_older_epoch_fires_nothing(store: Fixture) {
    let jobs = store.jobs(20).await;
    let old = store.open_all().await;
    let lost = shard_of(jobs[7].id);
    let new = store.seize_shards(&[lost], "other").await.unwrap();
    assert!(new[0].epoch > old.iter().find(|fence| fence.shard == lost).unwrap().epoch);
    let fires: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    let verdict = store.fire(batch(old.clone(), fires.clone())).await.unwrap();
    assert_eq!(verdict, FireVerdict::EpochLost(vec![lost]));
    let ids: Vec<ExecutionId> = fires.iter().map(|fire| fire.dispatch.execution).collect();
    assert!(store.get_executions(TenantId::DEFAULT, &ids).await.unwrap().iter().all(Option::is_none));
    let elsewhere: Vec<Fire> = fires.into_iter().filter(|fire| shard_of(fire.dispatch.job) != lost).collect();
    let verdict = store.fire(batch(old, elsewhere.clone())).await.unwrap();
    assert_eq!(
        verdict,
        FireVerdict::Fired(Verdicts::of(vec![Fired::New; elsewhere.len()])),
        "other shards are not touched by it"
    );
}

/// An opening that comes late takes nothing from whoever has opened since; what is as it was seen, it takes.
pub async fn an_opening_that_is_late_takes_nothing(store: Fixture) {
    let ids = [3, 7, 200].map(ShardId);
    let nobody = shard::seen(&ids, &store.load_shards().await.unwrap());
    assert!(nobody.iter().all(|fence| fence.epoch == Epoch(0)), "{nobody:?}");
    let first = store.open_shards(&nobody[..2], "a").await.unwrap();
    assert_eq!(first, [3, 7].map(|shard| ShardFence { shard: ShardId(shard), epoch: Epoch(1) }));
    let late = store.open_shards(&nobody, "b").await.unwrap();
    assert_eq!(late, [ShardFence { shard: ShardId(200), epoch: Epoch(1) }], "only what nobody had opened meanwhile");
    let seen = shard::seen(&ids, &store.load_shards().await.unwrap());
    assert_eq!(store.open_shards(&seen[1..], "c").await.unwrap().len(), 2);
    assert_eq!(store.open_shards(&seen[1..], "c").await.unwrap(), [], "nor a second time");
    let owners = store.status().await.unwrap().shards.into_iter().map(|shard| (shard.fence.shard.0, shard.owner));
    let expected = [(3, "a"), (7, "c"), (200, "c")].map(|(shard, owner)| (shard, owner.to_owned()));
    assert_eq!(owners.collect::<Vec<_>>(), expected);
}

/// No fence, no fire.
pub async fn a_missing_fence_fires_nothing(store: Fixture) {
    let job = store.job(1).await;
    let shard = shard_of(job.id);
    store.open_all().await;
    let never: Arc<[ShardFence]> = Arc::new([]);
    let fires = vec![g::fire(&job, DUE), g::manual_fire(&job, DUE, "x")];
    let verdict = store.fire(batch(never, fires.clone())).await.unwrap();
    assert_eq!(verdict, FireVerdict::EpochLost(vec![shard]));
    let others: Arc<[ShardFence]> =
        store.open_all().await.iter().copied().filter(|fence| fence.shard != shard).collect();
    let verdict = store.fire(batch(others, fires)).await.unwrap();
    assert_eq!(verdict, FireVerdict::EpochLost(vec![shard]));
    // A caller with fences acts as an owner, and must own what it fires: by hand too.
    let others: Arc<[ShardFence]> =
        store.open_all().await.iter().copied().filter(|fence| fence.shard != shard).collect();
    let verdict = store.fire(batch(others, vec![g::manual_fire(&job, DUE, "y")])).await.unwrap();
    assert_eq!(verdict, FireVerdict::EpochLost(vec![shard]));
}

/// Nothing repeats a manual fire or a backfill but its caller.
pub async fn fires_that_somebody_asked_for_need_no_fence(store: Fixture) {
    let job = store.job(1).await;
    let fire = g::manual_fire(&job, DUE, "once");
    let none: Arc<[ShardFence]> = Arc::new([]);
    let verdict = store.fire(batch(none.clone(), vec![fire.clone()])).await.unwrap();
    assert_eq!(verdict, FireVerdict::Fired(Verdicts::of(vec![Fired::New])));
    let verdict = store.fire(batch(none, vec![fire.clone()])).await.unwrap();
    assert_eq!(verdict, FireVerdict::Fired(Verdicts::of(vec![Fired::Exists])));
    assert_eq!(store.execution(fire.dispatch.execution).await.kind, FireKind::Manual);
    let backfill = Fire { kind: FireKind::Backfill, ..g::fire(&job, g::at(5)) };
    let none: Arc<[ShardFence]> = Arc::new([]);
    let verdict = store.fire(batch(none, vec![backfill])).await.unwrap();
    assert_eq!(verdict, FireVerdict::Fired(Verdicts::of(vec![Fired::New])));
}

/// What a fire carries beyond its instant.
pub async fn a_fire_keeps_what_it_carries(store: Fixture) {
    let job = Job { target: "https://example.com".into(), ..g::job_with(1, |d| d.overlap = Overlap::BufferAll) };
    store.create(&job).await;
    let fire = Fire {
        kind: FireKind::Backfill,
        wake_at: DUE.saturating_add_ms(7_000),
        covers_from: Some(g::at(10)),
        ..g::fire(&job, DUE)
    };
    // A backfill has the identity that it was given: here, that of the scheduled fire.
    assert_eq!(fire.dispatch.execution, ExecutionId::scheduled(job.tenant, job.id, DUE));
    store.fired(vec![fire.clone()]).await;
    let row = store.execution(fire.dispatch.execution).await;
    assert_eq!((row.kind, row.wake_at, row.fire_at), (FireKind::Backfill, fire.wake_at, DUE));
    assert_eq!((row.covers_from, row.overlap, row.target), (Some(g::at(10)), Overlap::BufferAll, job.target.clone()));
    assert_eq!(store.fired(vec![g::fire(&job, DUE)]).await, [Fired::Exists], "the schedule does not run it again");
    let waiting = WaitingQuery {
        shards: Vec::new(),
        before: Timestamp::MAX,
        fired_until: Timestamp::MAX,
        after: None,
        limit: 10,
    };
    let waiting = store.load_waiting(&waiting).await.unwrap().remove(0);
    assert_eq!((waiting.wake_at, waiting.dispatch), (fire.wake_at, fire.dispatch));
}

/// A change between making an execution and its instant: the new version's fire is the one that counts.
pub async fn a_newer_version_takes_its_instant_over(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let second = store.change(&job, g::at(40_000), g::define(&job, |d| d.priority = Priority::Critical)).await;
    assert_eq!(store.fired(vec![g::fire(&second, DUE)]).await, [Fired::New]);
    let taken = store.execution(id).await;
    assert_eq!((taken.state, taken.job_version, taken.priority), (State::Pending, 2, Priority::Critical));
    assert_eq!(store.fired(vec![g::fire(&job, DUE)]).await, [Fired::Exists], "an older version changes nothing");
    assert_eq!(store.execution(id).await, taken);

    // Also when the old one was discarded already.
    let third = store.change(&second, g::at(41_000), g::define(&second, |_| ())).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
    assert_eq!(store.execution(id).await.state, State::Skipped);
    assert_eq!(store.fired(vec![g::fire(&third, DUE)]).await, [Fired::New]);
    let again = store.execution(id).await;
    assert_eq!((again.state, again.reason, again.finished_at), (State::Pending, None, None));
    store.granted(id, 0, DUE).await;
}

/// Only what was skipped because of its version gives way to a newer one; what was skipped for another reason stays skipped.
pub async fn what_was_skipped_for_another_reason_is_not_refired(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let deleted = store.change(&job, g::at(55_000), g::Change::Delete).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::JobDeleted));
    let before = store.execution(id).await;
    let newer = Job { version: deleted.version + 1, ..deleted };
    assert_eq!(store.fired(vec![g::fire(&newer, DUE)]).await, [Fired::Exists]);
    assert_eq!(store.execution(id).await, before);

    // Who paused and resumed before the instant wants it, though a clock that was ahead has skipped it.
    let (job, id) = store.pending(2).await;
    let paused = store.change(&job, g::at(55_000), g::Change::Pause(None)).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::Paused));
    let resumed = store.change(&paused, g::at(56_000), g::Change::Resume).await;
    assert_eq!(store.fired(vec![g::fire(&resumed, DUE)]).await, [Fired::New]);
    assert_eq!(store.granted(id, 0, DUE).await.job_version, 3);
}

/// What ran stays as it ran, whatever version comes later.
pub async fn an_attempt_that_began_is_not_refired(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let newer = Job { version: 5, ..job };
    let granted = store.granted(id, 0, DUE).await;
    for _ in 0..2 {
        let before = store.execution(id).await;
        assert_eq!(store.fired(vec![g::fire(&newer, DUE)]).await, [Fired::Exists]);
        assert_eq!(store.execution(id).await, before);
        store.complete(vec![g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, DUE)]).await.unwrap();
    }
    let (job, cancelled) = store.pending(2).await;
    store.cancelled(cancelled, DUE).await;
    let newer = Job { version: 5, ..job };
    assert_eq!(store.fired(vec![g::fire(&newer, DUE)]).await, [Fired::Exists]);
    assert_eq!(store.execution(cancelled).await.state, State::Cancelled);

    // A snooze leaves no attempt behind, and yet it ran.
    let (job, snoozed) = store.pending(3).await;
    let granted = store.granted(snoozed, 0, DUE).await;
    store.complete(vec![g::complete(&granted, Event::Snooze, AttemptOutcome::Snoozed, DUE)]).await.unwrap();
    let before = store.execution(snoozed).await;
    assert_eq!((before.state, before.attempt), (State::Retrying, 0));
    assert_eq!(store.fired(vec![g::fire(&Job { version: 5, ..job }, DUE)]).await, [Fired::Exists]);
    assert_eq!(store.execution(snoozed).await, before);

    // Tried once, and its job changed since: it is neither refired nor discarded, but tried again.
    let (job, retried) = store.pending(4).await;
    let granted = store.granted(retried, 0, DUE).await;
    let failed = g::complete(&granted, Event::FailRetryable, AttemptOutcome::Failed, DUE);
    let wake_at = failed.wake_at;
    store.complete(vec![failed]).await.unwrap();
    let changed = store.change(&job, g::at(55_000), g::define(&job, |_| ())).await;
    let before = store.execution(retried).await;
    assert_eq!(store.fired(vec![g::fire(&changed, DUE)]).await, [Fired::Exists]);
    assert_eq!(store.execution(retried).await, before);
    assert!(matches!(store.claimed(retried, 1, wake_at).await, Claimed::Granted(_)));
}

/// A skip is an outcome of a fire, so it needs the same right.
pub async fn skips_are_fenced_and_recorded(store: Fixture) {
    let job = store.job(1).await;
    let skip = Skip {
        tenant: job.tenant,
        job: job.id,
        from: g::at(0),
        to: g::at(9),
        reason: Reason::MisfireCoalesced,
        recorded_at: g::at(50_000),
    };
    let with = |fences| FireBatch { skips: vec![skip.clone()], ..batch(fences, Vec::new()) };
    let none: Arc<[ShardFence]> = Arc::new([]);
    assert_eq!(store.fire(with(none)).await.unwrap(), FireVerdict::EpochLost(vec![shard_of(job.id)]));
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items, []);
    let fences = store.open_all().await;
    for _ in 0..2 {
        assert_eq!(store.fire(with(fences.clone())).await.unwrap(), FireVerdict::Fired(Verdicts::default()));
    }
    assert_eq!(
        store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items,
        [skip],
        "the same skip again is the same"
    );
}

/// However a store orders its work.
pub async fn verdicts_keep_the_order_of_the_batch(store: Fixture) {
    let jobs = store.jobs(40).await;
    let fires: Vec<Fire> = jobs.iter().rev().map(|job| g::fire(job, DUE)).collect();
    let even: Vec<Fire> = fires.iter().step_by(2).cloned().collect();
    store.fired(even).await;
    let verdicts = store.fired(fires.clone()).await;
    for (i, verdict) in verdicts.into_iter().enumerate() {
        assert_eq!(verdict, if i % 2 == 0 { Fired::Exists } else { Fired::New });
    }
    let claims = fires.iter().map(|fire| g::claim(fire.dispatch.execution, 0, DUE)).collect();
    let claimed = store.claim(claims).await.unwrap().verdicts;
    for (fire, claimed) in fires.iter().zip(&claimed) {
        let Claimed::Granted(granted) = claimed else { panic!("{claimed:?}") };
        assert_eq!((granted.fence.execution, granted.job), (fire.dispatch.execution, fire.dispatch.job));
    }
}

/// Who fills a gap takes nothing away from a version of the schedule that is about to run it.
pub async fn a_backfill_does_not_take_over_what_is_about_to_run(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let second = store.change(&job, DUE.saturating_add_ms(500), g::define(&job, |d| d.payload = "2".into())).await;
    let gap = Fire { kind: FireKind::Backfill, ..g::fire(&second, DUE) };
    assert_eq!(store.fired(vec![gap]).await, [Fired::Exists]);
    assert_eq!(store.execution(id).await.job_version, 1);
}
