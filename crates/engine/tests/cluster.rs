//! Several engines on one store, each owning what it is told: shards move, nodes vanish, and one believes wrongly that it still
//! owns. With time and assignments in the test's hands.

mod rig;

use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::Job;
use campanile_model::lifecycle::State;
use campanile_model::shard::{self, ShardId};
use campanile_model::store::JobKey;
use campanile_testkit::generate as g;
use rig::{HANG, Rig, TENANT, Told, draft, every, with};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const JOBS: usize = 40;

fn half(even: bool) -> impl Iterator<Item = ShardId> {
    shard::all().filter(move |shard| shard.0.is_multiple_of(2) == even)
}

/// A node that owns everything, and jobs that fire every second.
async fn first(coordinator: &Arc<Told>) -> (Rig, Vec<Job>) {
    coordinator.tell(shard::all(), &["node:a"]);
    let rig = Rig::told(coordinator.clone()).await;
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        jobs.push(rig.create(draft(&format!("job-{n}"), every(1_000))).await);
    }
    (rig, jobs)
}

/// Every fire since the jobs were made has its one execution, which succeeded at its first attempt.
async fn check(rig: &Rig, jobs: &[Job]) {
    for job in jobs {
        let executions = rig.executions(job.id).await;
        let mut expected = job.created_at.millis() / 1_000 * 1_000 + 1_000;
        for execution in executions.iter().filter(|execution| execution.fire_at <= rig.now()) {
            assert_eq!(execution.fire_at.millis(), expected, "{}", job.name());
            assert_eq!((execution.state, execution.attempt), (State::Succeeded, 1), "{}", job.name());
            expected += 1_000;
        }
        assert!(expected > rig.now().millis() - 1_000, "{} stands still at {expected}", job.name());
    }
    let seen = rig.seen();
    let distinct: HashSet<_> = seen.iter().map(|seen| seen.execution).collect();
    assert_eq!(distinct.len(), seen.len(), "nothing ran twice");
    assert!(seen.iter().all(|seen| seen.at >= seen.fire_at), "nothing ran early");
}

/// Another node's opening was on its way when this one looked: what this one saw is not what there is.
#[tokio::test(flavor = "multi_thread")]
async fn shards_that_are_opened_meanwhile_are_looked_at_again() {
    let coordinator = Told::new();
    coordinator.tell([], &["node:a"]);
    let rig = Rig::told(coordinator.clone()).await;
    let all: Vec<ShardId> = shard::all().collect();
    let nobody = shard::seen(&all, &rig.store.load_shards().await.unwrap());
    // What both have to wait for; and the other one is before this one.
    let busy = (1..=20_000).map(|n| g::create(&g::job(n))).collect();
    let (store, other) = (rig.store.clone(), rig.store.clone());
    let busy = tokio::spawn(async move { store.put_jobs(busy).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let late = tokio::spawn(async move { other.open_shards(&nobody, "node:b").await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    coordinator.tell(all.clone(), &["node:a"]);
    busy.await.unwrap();
    assert_eq!(late.await.unwrap().len(), all.len());
    for _ in 0..100 {
        rig.pass(50).await;
        let shards = rig.store.status().await.unwrap().shards;
        if shards.iter().all(|shard| shard.owner == "node:a") && shards.len() == all.len() {
            return;
        }
    }
    panic!("the shards stay where they are");
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_move_and_nothing_is_lost_or_doubled() {
    let (to_a, to_b) = (Told::new(), Told::new());
    let (a, jobs) = first(&to_a).await;
    a.pass(2_000).await;
    to_b.tell([], &["node:a", "node:b"]);
    let b = a.beside("node:b", to_b.clone()).await;
    to_a.tell(half(true), &["node:a", "node:b"]);
    to_b.tell(half(false), &["node:a", "node:b"]);
    a.pass(3_000).await;
    let owners: HashSet<String> = a.store.status().await.unwrap().shards.into_iter().map(|shard| shard.owner).collect();
    assert_eq!(owners, HashSet::from(["node:a".to_owned(), "node:b".to_owned()]));
    assert!(b.metrics.fired.get() > 0, "the other half fires on the other node");
    // A job that is written on one node fires on the other.
    let name = (0..).map(|n| format!("new-{n}"));
    for name in name.take(8) {
        a.create(draft(&name, every(1_000))).await;
    }
    a.pass(2_000).await;
    to_a.tell([], &["node:a", "node:b"]);
    to_b.tell(shard::all(), &["node:a", "node:b"]);
    a.pass(3_000).await;
    check(&a, &jobs).await;
    assert_eq!(a.metrics.epoch_refused.get() + b.metrics.epoch_refused.get(), 0, "everybody gave up in time");
    let fired = a.metrics.fired.get();
    a.pass(2_000).await;
    assert_eq!(a.metrics.fired.get(), fired, "who owns nothing fires nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_believes_wrongly_that_it_owns_is_refused_and_counted() {
    let (to_a, to_b) = (Told::new(), Told::new());
    let (a, jobs) = first(&to_a).await;
    a.pass(2_000).await;
    // Nobody tells the first node.
    to_b.tell(shard::all(), &["node:b"]);
    let b = a.beside("node:b", to_b).await;
    a.pass(4_000).await;
    assert!(b.metrics.fired.get() > 0);
    assert!(a.metrics.epoch_refused.get() > 0, "it fires under an old epoch, and is refused");
    to_a.tell([], &["node:a", "node:b"]);
    a.pass(3_000).await;
    check(&a, &jobs).await;
    let epochs: Vec<u64> = a.store.status().await.unwrap().shards.iter().map(|shard| shard.fence.epoch.0).collect();
    assert!(epochs.iter().all(|&epoch| epoch >= 2), "{epochs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gone_node_ran_is_tried_again() {
    let (to_a, to_b) = (Told::new(), Told::new());
    let (a, _) = first(&to_a).await;
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    let job = a.create(with(draft("hang", every(3_600_000)), |d| (d.action, d.timeout_ms) = (hang, 3_600_000))).await;
    let execution = a.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0.id;
    a.pass(500).await;
    assert_eq!(a.handle.execution(TENANT, execution).await.unwrap().state, State::Running);
    to_b.tell(shard::all(), &["node:a", "node:b"]);
    to_a.tell([], &["node:a", "node:b"]);
    let b = a.beside("node:b", to_b.clone()).await;
    b.pass(12_000).await;
    assert_eq!(a.handle.execution(TENANT, execution).await.unwrap().attempt, 1, "its node lives, and so does it");
    to_b.tell(shard::all(), &["node:b"]);
    b.pass(2_000).await;
    let attempts = a.store.list_attempts(TENANT, execution).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::WorkerLost), "{attempts:?}");
    assert!(attempts.len() >= 2, "and it was tried again: {attempts:?}");
}
