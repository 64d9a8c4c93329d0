//! Two nodes on one database: what one of them decides, the other keeps to.
//!
//! The shared suite races callers of one store, and stores with a single writer put them in order anyway. Here nothing
//! does but the locks: runs that must not overlap, slots of pools, watches, groups of dead executions.

mod schema;

use campanile_model::action::ActionKind;
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::execution::{AttemptError, AttemptOutcome};
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::store::{
    Applied, CancelBatch, Claimed, Completion, ExecutionQuery, Fire, Granted, Resolve, RunningQuery, Store, Waiting,
    WaitingQuery,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use campanile_pg::tokio_postgres::Client;
use campanile_pg::{Target, Uuid};
use campanile_store::postgres::PostgresStore;
use campanile_testkit::clock::ManualClock;
use campanile_testkit::conformance::store::lives::{self, Dice};
use campanile_testkit::conformance::store::{DUE, Fixture};
use campanile_testkit::generate as g;
use schema::Schema;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Later than everything here is due.
const LATE: Timestamp = g::at(50_000_000);

/// Two stores on the same schema. The first one is there for the suite's helpers.
async fn two_nodes() -> (Fixture, [Arc<dyn Store>; 2]) {
    let schema = Schema::new();
    let clock = ManualClock::new(g::START);
    let open = async || PostgresStore::open_with_clock(&schema.options(), Some(Arc::new(clock.clone()))).await;
    let a = Arc::new(open().await.expect("a new store opens"));
    let b = Arc::new(open().await.expect("it opens again"));
    (Fixture::new(a.clone(), clock, schema), [a, b])
}

async fn fired(store: &Fixture, jobs: &[Job], count: i64) -> Vec<ExecutionId> {
    store.put_jobs(jobs.iter().map(g::create).collect()).await.unwrap();
    let fires = jobs.iter().flat_map(|job| (0..count).map(|i| g::fire(job, DUE.saturating_add_ms(i * 1_000))));
    let fires: Vec<Fire> = fires.collect();
    store.fired(fires.clone()).await;
    fires.iter().map(|fire| fire.dispatch.execution).collect()
}

fn granted(claimed: Vec<Claimed>) -> Vec<Granted> {
    let grant = |claimed| match claimed {
        Claimed::Granted(granted) => Some(*granted),
        _ => None,
    };
    claimed.into_iter().filter_map(grant).collect()
}

async fn waiting(store: &dyn Store) -> Vec<Waiting> {
    let query = WaitingQuery {
        shards: Vec::new(),
        before: Timestamp::MAX,
        after: None,
        fired_until: Timestamp::MAX,
        limit: 10_000,
    };
    store.load_waiting(&query).await.unwrap()
}

fn ended(granted: &Granted, event: Event, message: &str) -> Completion {
    let outcome = if event == Event::Succeed { AttemptOutcome::Succeeded } else { AttemptOutcome::Failed };
    let error = (event != Event::Succeed).then(|| AttemptError { kind: "k".into(), message: message.into() });
    Completion { wake_at: DUE, error, ..g::complete(granted, event, outcome, LATE) }
}

/// Changes an execution, and does not commit it yet.
async fn change_under(client: &Client, id: ExecutionId, change: &str) {
    client.batch_execute("BEGIN").await.unwrap();
    write(client, id, change).await;
}

async fn write(client: &Client, id: ExecutionId, change: &str) {
    let sql = format!("UPDATE executions SET {change} WHERE id = $1");
    assert_eq!(client.execute(&sql, &[&Uuid::from(id)]).await.unwrap(), 1);
}

/// Commits once somebody waits for it, who had read the row before.
async fn commit_when_waited_for(client: &Client) {
    wait_until_waited_for(client).await;
    client.batch_execute("COMMIT").await.unwrap();
}

async fn wait_until_waited_for(client: &Client) {
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Claims and ends of attempts lock no row before they write it. What somebody else has written in between is judged again,
/// and the rest of the batch is as if nothing had been.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_changes_between_reading_and_writing_is_judged_again() {
    let schema = Schema::new();
    let target = Target::new(&schema.options()).unwrap();
    let clock = ManualClock::new(g::START);
    let node = PostgresStore::open_with_clock(&schema.options(), Some(Arc::new(clock.clone()))).await.unwrap();
    let store = Fixture::new(Arc::new(node), clock, schema);
    let ids = fired(&store, &[g::job_with(1, |d| d.action.kind = ActionKind::Worker)], 3).await;
    let (client, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);

    change_under(&client, ids[1], &format!("state = {}", State::Cancelled.code())).await;
    let claims = ids.iter().map(|id| g::claim(*id, 0, LATE)).collect();
    let (claimed, ()) = tokio::join!(store.claim(claims), commit_when_waited_for(&client));
    let claimed = claimed.unwrap().verdicts;
    assert_eq!(claimed[1], Claimed::Stale { state: State::Cancelled });
    let running = granted(claimed);
    assert_eq!(running.len(), 2);

    change_under(&client, ids[2], "cancel_requested_at = 1").await;
    let ends = running.iter().map(|granted| ended(granted, Event::FailRetryable, "m")).collect();
    let (completed, ()) = tokio::join!(store.complete(ends), commit_when_waited_for(&client));
    // Whoever was asked to stop is not tried again.
    assert_eq!(completed.unwrap().verdicts, [Applied::Done, Applied::Stale { state: State::Running }]);
}

/// A batch that several statements write locks its rows in the order of their ids all the same: whoever has the first of them finds
/// the others free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_of_several_kinds_of_changes_locks_its_rows_in_order() {
    let schema = Schema::new();
    let target = Target::new(&schema.options()).unwrap();
    let clock = ManualClock::new(g::START);
    let node = PostgresStore::open_with_clock(&schema.options(), Some(Arc::new(clock.clone()))).await.unwrap();
    let store = Fixture::new(Arc::new(node), clock, schema);
    let jobs = [1, 2].map(|n| g::job_with(n, |d| d.action.kind = ActionKind::Worker));
    let ids = fired(&store, &jobs, 2).await;
    // The first one is discarded, the last one starts: written by another statement, and before it.
    store.change(&jobs[0], g::at(1), g::Change::Delete).await;
    let (first, last) = (ids[0], ids[3]);
    assert!(first < last);
    let (client, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);

    change_under(&client, first, "note = 'changed'").await;
    // Sooner than the server would look for cycles.
    client.batch_execute("SET LOCAL lock_timeout = '300ms'").await.unwrap();
    let others = async {
        wait_until_waited_for(&client).await;
        write(&client, last, "note = 'changed'").await;
        client.batch_execute("COMMIT").await.unwrap();
    };
    let (claimed, ()) = tokio::join!(store.claim(vec![g::claim(last, 0, LATE), g::claim(first, 0, LATE)]), others);
    let claimed = claimed.unwrap().verdicts;
    assert!(matches!(claimed[..], [Claimed::Granted(_), Claimed::Discarded(_)]), "{claimed:?}");
}

/// Whatever the policy, and whoever claims, completes and cancels: one run at a time, and nobody waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_do_not_overlap_across_nodes() {
    let (store, nodes) = two_nodes().await;
    let policies = Overlap::ALL.into_iter().filter(|policy| *policy != Overlap::Allow);
    let jobs = policies
        .enumerate()
        .map(|(n, overlap)| g::job_with(n as u64 + 1, |d| (d.overlap, d.action.kind) = (overlap, ActionKind::Worker)));
    let jobs: Vec<Job> = jobs.collect();
    let ids = fired(&store, &jobs, 60).await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let (store, jobs, ids) = (nodes[n as usize % 2].clone(), jobs.clone(), ids.clone());
        tasks.spawn(async move {
            let dice = Dice::new(n);
            let worker = if n < 3 { "node:a" } else { "worker-1" };
            for _ in 0..60 {
                let some: Vec<ExecutionId> = (0..6).map(|_| *dice.of(&ids)).collect();
                let rows = store.get_executions(TenantId::DEFAULT, &some).await.unwrap();
                let rows = rows.into_iter().flatten();
                let claims = rows.map(|row| g::claim_by(row.id, row.attempt, LATE, worker)).collect();
                let mine = granted(store.claim(claims).await.unwrap().verdicts);
                for job in &jobs {
                    let states = vec![State::Running];
                    let query = ExecutionQuery { job: Some(job.id), states, ..lives::all(10) };
                    let running = store.list_executions(&query).await.unwrap().items.len();
                    assert!(running <= 1, "{running} runs of {:?}", job.definition.overlap);
                }
                if dice.below(3) == 0 {
                    let batch = CancelBatch { grace_ms: Some(5_000), ..g::cancel(&some[..2], LATE) };
                    store.cancel(batch).await.unwrap();
                }
                let ends = mine.iter().map(|granted| {
                    let event = dice.of(&[Event::Succeed, Event::FailRetryable, Event::FailFinal]);
                    ended(granted, *event, "m")
                });
                store.complete(ends.collect()).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    end_all(&store, &nodes).await;
    let left = ExecutionQuery { states: vec![State::Held, State::Running], ..lives::all(1_000) };
    assert_eq!(store.list_executions(&left).await.unwrap().items, [], "nobody waits for ever");
    assert_eq!(store.reconcile().await.unwrap(), 0);
}

/// Lets everything run that may, until nothing waits; and ends what was asked to stop and did not.
async fn end_all(store: &Fixture, nodes: &[Arc<dyn Store>; 2]) {
    for round in 0..2_000 {
        let ready = waiting(&***store).await;
        let expired =
            store.load_running(&RunningQuery::Expired { now: g::at(90_000_000), limit: 1_000 }).await.unwrap();
        if ready.is_empty() && expired.is_empty() {
            return;
        }
        let lost = expired.iter().map(|attempt| Completion {
            wake_at: DUE,
            ..g::complete_fence(attempt.fence, Event::Cancel, AttemptOutcome::Cancelled, LATE)
        });
        store.complete(lost.collect()).await.unwrap();
        let claims = ready.iter().map(|w| g::claim_by(w.dispatch.execution, w.dispatch.attempt, LATE, "node:a"));
        let mine = granted(nodes[round % 2].claim(claims.collect()).await.unwrap().verdicts);
        let ends = mine.iter().map(|granted| ended(granted, Event::Succeed, ""));
        nodes[(round + 1) % 2].complete(ends.collect()).await.unwrap();
    }
    panic!("it does not come to an end");
}

/// I6 across nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_more_run_than_there_are_slots_across_nodes() {
    let (store, nodes) = two_nodes().await;
    let pool = Capacity {
        tenant: TenantId::DEFAULT,
        scope: Scope::Pool,
        name: "narrow".into(),
        slots: Some(5),
        per_second_milli: None,
        paused: false,
        updated_at: g::at(0),
    };
    store.put_record(pool.into(), None).await.unwrap();
    let jobs: Vec<Job> = (1..=40).map(|n| g::job_with(n, |d| d.pool = "narrow".into())).collect();
    let ids = fired(&store, &jobs, 10).await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let (store, ids) = (nodes[n as usize % 2].clone(), ids.clone());
        tasks.spawn(async move {
            let (dice, mut ran) = (Dice::new(n), 0);
            for _ in 0..40 {
                let some = (0..8).map(|_| g::claim(*dice.of(&ids), 0, LATE)).collect();
                let mine = granted(store.claim(some).await.unwrap().verdicts);
                let counts = store.counts(Some(TenantId::DEFAULT)).await.unwrap();
                let running = counts.iter().filter(|count| count.state == State::Running).map(|count| count.executions);
                let running: u64 = running.sum();
                assert!(running <= 5, "{running} run");
                ran += mine.len();
                store.complete(mine.iter().map(|granted| ended(granted, Event::Succeed, "")).collect()).await.unwrap();
            }
            ran
        });
    }
    let ran: usize = tasks.join_all().await.into_iter().sum();
    let done = lives::counts(&store).await.into_iter().find(|(_, state, _)| *state == State::Succeeded);
    assert_eq!(done.map(|(.., count)| count), Some(ran as u64));
    assert_eq!(store.reconcile().await.unwrap(), 0);
}

/// Each is told by one of those who look for it, and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_broken_watch_is_told_once() {
    let (store, nodes) = two_nodes().await;
    let expect = Expectation { start_within_ms: Some(10), ..Expectation::default() };
    let jobs: Vec<Job> = (1..=30).map(|n| g::job_with(n, |d| d.expect = expect)).collect();
    let ids = fired(&store, &jobs, 10).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = nodes[n % 2].clone();
        tasks.spawn(async move {
            let mut told = Vec::new();
            loop {
                let broken = store.break_watches(LATE, 20).await.unwrap();
                if broken.is_empty() {
                    return told;
                }
                told.extend(broken.into_iter().filter_map(|watch| watch.execution));
            }
        });
    }
    let mut told: Vec<ExecutionId> = tasks.join_all().await.into_iter().flatten().collect();
    told.extend(store.break_watches(LATE, 1_000).await.unwrap().into_iter().filter_map(|watch| watch.execution));
    assert_eq!(told.len(), ids.len(), "once");
    assert_eq!(told.into_iter().collect::<HashSet<_>>(), ids.into_iter().collect());
}

/// Deaths, replays and burials of the same executions from everywhere: the groups are what counting gives.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_dead_are_counted_right_across_nodes() {
    let (store, nodes) = two_nodes().await;
    let jobs: Vec<Job> = (1..=5).map(g::job).collect();
    let ids = fired(&store, &jobs, 12).await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let (store, ids) = (nodes[n as usize % 2].clone(), ids.clone());
        tasks.spawn(async move {
            let dice = Dice::new(n);
            for _ in 0..60 {
                let some: Vec<ExecutionId> = (0..6).map(|_| *dice.of(&ids)).collect();
                match dice.below(8) {
                    0 => drop(
                        store
                            .resolve_dead(TenantId::DEFAULT, g::discard(some[..1].to_vec(), "gone"), LATE)
                            .await
                            .unwrap()
                            .verdicts,
                    ),
                    1 | 2 => {
                        let replays =
                            some.iter().map(|&execution| Resolve::Replay { execution, wake_at: DUE }).collect();
                        store.resolve_dead(TenantId::DEFAULT, replays, LATE).await.unwrap();
                    }
                    _ => {
                        let rows = store.get_executions(TenantId::DEFAULT, &some).await.unwrap();
                        let rows = rows.into_iter().flatten();
                        let claims = rows.map(|row| g::claim(row.id, row.attempt, LATE)).collect();
                        let mine = granted(store.claim(claims).await.unwrap().verdicts);
                        let message = *dice.of(&["a", "b", "c"]);
                        let ends = mine.iter().map(|granted| ended(granted, Event::FailFinal, message));
                        store.complete(ends.collect()).await.unwrap();
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    let dead = ExecutionQuery { states: vec![State::Dead], ..lives::all(1_000) };
    let dead = store.list_executions(&dead).await.unwrap().items;
    let groups = store.dead_groups(TenantId::DEFAULT, 100).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), dead.len() as u64);
    for group in groups {
        let sample = dead.iter().find(|execution| execution.id == group.sample);
        assert_eq!(sample.and_then(|execution| execution.fingerprint), Some(group.fingerprint), "a sample of its own");
    }
    assert_eq!(store.reconcile().await.unwrap(), 0);
}
