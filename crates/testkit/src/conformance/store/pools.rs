//! Pools: how many run at the same time, and what is paused. And the counts that this rests on.

use super::lives::{Dice, counted, counts};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::store::{Applied, Claim, Claimed, Fire, Granted, RecordKey, RecordKind};
use campanile_model::{ExecutionId, TenantId};

pub(super) fn pool(name: &str, slots: Option<u32>, paused: bool) -> Capacity {
    Capacity {
        tenant: TenantId::DEFAULT,
        scope: Scope::Pool,
        name: name.into(),
        slots,
        per_second_milli: None,
        paused,
        updated_at: g::at(5),
    }
}

/// Executions of jobs `from` to `to` in a pool.
async fn waiting_in(store: &Fixture, pool: &str, numbers: std::ops::Range<u64>) -> Vec<ExecutionId> {
    let jobs: Vec<Job> = numbers.map(|n| g::job_with(n, |d| d.pool = pool.into())).collect();
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let fires: Vec<Fire> = jobs.iter().map(|job| g::fire(job, DUE)).collect();
    store.fired(fires.clone()).await;
    fires.iter().map(|fire| fire.dispatch.execution).collect()
}

async fn claim(store: &Fixture, ids: &[ExecutionId]) -> Vec<Claimed> {
    store.claim(ids.iter().map(|&id| g::claim(id, 0, DUE)).collect()).await.unwrap().verdicts
}

fn granted(claimed: &[Claimed]) -> Vec<Granted> {
    let grant = |claimed: &Claimed| match claimed {
        Claimed::Granted(granted) => Some((**granted).clone()),
        _ => None,
    };
    claimed.iter().filter_map(grant).collect()
}

fn success(granted: &Granted) -> campanile_model::store::Completion {
    g::complete(granted, Event::Succeed, AttemptOutcome::Succeeded, DUE)
}

/// I6: in the order of the batch, and over batches; the end of one makes room for another.
pub async fn no_more_run_than_there_are_slots(store: Fixture) {
    store.put_record(pool("narrow", Some(3), false).into(), None).await.unwrap();
    let mut ids = waiting_in(&store, "narrow", 1..9).await;
    ids.reverse();
    let wide = waiting_in(&store, "wide", 20..22).await;
    let mixed = [&ids[..2], &wide[..1], &ids[2..], &wide[1..]].concat();
    let claimed = claim(&store, &mixed).await;
    let started: Vec<_> = granted(&claimed).iter().map(|granted| granted.fence.execution).collect();
    assert_eq!(started, [ids[0], ids[1], wide[0], ids[2], wide[1]], "first come, first served");
    assert_eq!(claimed.iter().filter(|it| **it == Claimed::Deferred(Reason::QuotaDeferred)).count(), 5);
    let deferred = store.execution(ids[3]).await;
    assert_eq!((deferred.state, deferred.attempt, deferred.wake_at), (State::Pending, 0, DUE), "it waits as before");
    assert_eq!(claim(&store, &ids[3..5]).await, vec![Claimed::Deferred(Reason::QuotaDeferred); 2]);
    // Any way to leave the running ones makes room: success, failure, cancel.
    let running = granted(&claimed);
    store.completed(success(&running[0])).await;
    assert_eq!(granted(&claim(&store, &ids[3..5]).await).len(), 1);
    let failed = g::complete(&running[1], Event::FailRetryable, AttemptOutcome::Failed, DUE);
    store.completed(failed).await;
    store.cancelled(ids[2], DUE).await;
    assert_eq!(granted(&claim(&store, &ids[4..]).await).len(), 2);
    // More slots, or no limit at all.
    store.put_record(pool("narrow", Some(4), false).into(), None).await.unwrap();
    assert_eq!(granted(&claim(&store, &ids[6..]).await).len(), 1);
    store.delete_record(&RecordKey::new(RecordKind::Pool, TenantId::DEFAULT, "narrow")).await.unwrap();
    assert_eq!(granted(&claim(&store, &ids[7..]).await).len(), 1);
    assert_eq!(counts(&store).await, counted(&store).await);
}

/// A paused pool starts nothing, instant or not; a target of the same name is another matter.
pub async fn a_paused_pool_starts_nothing(store: Fixture) {
    let ids = waiting_in(&store, "p", 1..4).await;
    store.put_record(Capacity { scope: Scope::Target, ..pool("p", Some(0), true) }.into(), None).await.unwrap();
    store.put_record(Capacity { tenant: TenantId(2), ..pool("p", Some(0), true) }.into(), None).await.unwrap();
    assert_eq!(granted(&claim(&store, &ids[..1]).await).len(), 1);
    store.put_record(pool("p", Some(10), true).into(), None).await.unwrap();
    let before = store.execution(ids[1]).await;
    assert_eq!(claim(&store, &ids[1..2]).await, [Claimed::Deferred(Reason::Paused)]);
    let instant = g::complete_unclaimed(g::claim(ids[1], 0, DUE));
    assert_eq!(store.completed(instant.clone()).await, Applied::Stale { state: State::Pending });
    assert_eq!(store.execution(ids[1]).await, before);
    store.put_record(pool("p", Some(1), false).into(), None).await.unwrap();
    assert_eq!(store.completed(instant.clone()).await, Applied::Stale { state: State::Pending }, "no free slot");
    store.put_record(pool("p", Some(2), false).into(), None).await.unwrap();
    assert_eq!(store.completed(instant).await, Applied::Done);
}

/// What must not run at all is skipped, paused pool or not.
pub async fn a_limit_does_not_keep_what_must_not_run(store: Fixture) {
    let job = g::job_with(1, |d| d.pool = "p".into());
    store.put(g::create(&job)).await;
    let fire = g::fire(&job, DUE);
    store.fired(vec![fire.clone()]).await;
    store.put_record(pool("p", Some(0), true).into(), None).await.unwrap();
    store.change(&job, g::at(55_000), g::define(&job, |_| ())).await;
    assert_eq!(claim(&store, &[fire.dispatch.execution]).await, [Claimed::Discarded(Reason::StaleVersion)]);
}

/// Of one tenant or of all.
pub async fn counts_follow_every_state(store: Fixture) {
    assert_eq!(store.counts(None).await.unwrap(), []);
    let foreign = g::of_tenant(g::job(9), TenantId(2));
    store.put(g::create(&foreign)).await;
    store.fired(vec![g::fire(&foreign, DUE)]).await;
    let ids = waiting_in(&store, "p", 1..4).await;
    let claimed = granted(&claim(&store, &ids[..2]).await);
    store.completed(success(&claimed[0])).await;
    let own = counts(&store).await;
    let p = |state| ("p".to_owned(), state, 1);
    assert_eq!(own, [p(State::Pending), p(State::Running), p(State::Succeeded)]);
    let all = store.counts(None).await.unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().any(|count| count.tenant == TenantId(2) && count.state == State::Pending));
}

/// A newer version may move an execution to another pool.
pub async fn a_refire_moves_the_count(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let second = store.change(&job, g::at(40_000), g::define(&job, |d| d.pool = "other".into())).await;
    store.fired(vec![g::fire(&second, DUE)]).await;
    assert_eq!(counts(&store).await, [("other".to_owned(), State::Pending, 1)]);
    let third = store.change(&second, g::at(41_000), g::define(&second, |d| d.pool = "third".into())).await;
    assert_eq!(store.claimed(id, 0, DUE).await, Claimed::Discarded(Reason::StaleVersion));
    assert_eq!(counts(&store).await, [("other".to_owned(), State::Skipped, 1)]);
    store.fired(vec![g::fire(&third, DUE)]).await;
    assert_eq!(counts(&store).await, [("third".to_owned(), State::Pending, 1)]);
    assert_eq!(store.execution(id).await.pool.as_ref(), "third");
}

/// Property: whatever verbs were called in whatever order, with right and wrong guards, the counts are what counting gives, no
/// pool runs more than its slots, and no job that may not overlap runs twice.
pub async fn counts_are_what_counting_gives_after_any_walk(store: Fixture) {
    let mut walk = super::walk::Walk::new(&store, Dice::new(4)).await;
    for step in 0..600 {
        walk.step(&store).await;
        if step % 20 == 0 {
            walk.check(&store).await;
        }
    }
    walk.check(&store).await;
}

/// The same from several callers at once.
pub async fn counts_are_what_counting_gives_under_concurrency(store: Fixture) {
    let walk = super::walk::Walk::new(&store, Dice::new(5)).await;
    let mut walkers = tokio::task::JoinSet::new();
    for seed in 0..4 {
        let (store, mut walk) = (std::sync::Arc::clone(&store), walk.again(Dice::new(seed)));
        walkers.spawn(async move {
            for _ in 0..150 {
                walk.step(&store).await;
            }
        });
    }
    walkers.join_all().await;
    walk.check(&store).await;
}

/// The claim of one who names no attempt that there was.
pub async fn a_deferred_claim_takes_nothing(store: Fixture) {
    store.put_record(pool("p", Some(0), false).into(), None).await.unwrap();
    let ids = waiting_in(&store, "p", 1..3).await;
    let wrong = Claim { attempt: 3, ..g::claim(ids[0], 0, DUE) };
    let verdicts = store.claim(vec![wrong, g::claim(ids[1], 0, DUE)]).await.unwrap().verdicts;
    assert_eq!(verdicts, [Claimed::Stale { state: State::Pending }, Claimed::Deferred(Reason::QuotaDeferred)]);
    assert_eq!(store.execution(ids[1]).await.deliveries, 0);
}
