//! Expectations: what is watched, when a watch is broken, and who hears of it.

use super::deliveries::{die, endpoint, kinds, succeed, told};
use super::lives;
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::execution::AttemptOutcome;
use campanile_model::job::{Job, Window};
use campanile_model::lifecycle::{Event, State};
use campanile_model::notify::{Broken, Endpoint, EventKind, Expectation, WatchKind};
use campanile_model::schedule::Schedule;
use campanile_model::store::{CancelTarget, Claimed, Fire, Fired};
use campanile_model::{ExecutionId, Timestamp};

const NOTHING: Expectation = Expectation { start_within_ms: None, finish_within_ms: None, success_every_ms: None };

fn after(ms: i64) -> Timestamp {
    DUE.saturating_add_ms(ms)
}

async fn expecting(store: &Fixture, n: u64, expect: Expectation) -> Job {
    let job = g::job_with(n, |d| d.expect = expect);
    store.done(g::create(&job)).await;
    job
}

async fn fired(store: &Fixture, job: &Job, at: Timestamp) -> ExecutionId {
    let fire = Fire { expect: job.definition.expect, ..g::fire(job, at) };
    let id = fire.dispatch.execution;
    assert_eq!(store.fired(vec![fire]).await, [Fired::New]);
    id
}

fn broken(job: &Job, execution: Option<ExecutionId>, kind: WatchKind, due_at: Timestamp) -> Broken {
    Broken { tenant: job.tenant, job: job.id, execution, kind, due_at }
}

/// At its instant and not before; once; and it is told.
pub async fn a_start_that_does_not_come_is_late(store: Fixture) {
    let everything = endpoint(1);
    store.put_record(everything.clone().into(), None).await.unwrap();
    let job = expecting(&store, 1, Expectation { start_within_ms: Some(500), ..NOTHING }).await;
    let id = fired(&store, &job, DUE).await;
    let on_time = fired(&store, &job, after(1)).await;
    store.granted(on_time, 0, after(400)).await;
    assert_eq!(store.break_watches(after(499), 10).await.unwrap(), []);
    let late = broken(&job, Some(id), WatchKind::Start, after(500));
    assert_eq!(store.break_watches(after(510), 10).await.unwrap(), [late]);
    assert_eq!(store.break_watches(after(9_000), 10).await.unwrap(), [], "once");
    let told = told(&store, &everything).await;
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].job, told[0].execution), (EventKind::Late, job.id, Some(id)));
    let data: serde_json::Value = serde_json::from_str(&told[0].data).unwrap();
    assert_eq!(data["expectation"], "start_within");
    assert_eq!(data["due_at"], after(500).to_string());
    assert_eq!((&data["job_name"], &data["execution_id"]), (&job.name().into(), &id.to_string().into()));
    // It starts after all, and succeeds.
    let granted = store.granted(id, 0, after(10_000)).await;
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, after(10_001));
    store.complete(vec![done]).await.unwrap();
    let mut kinds = kinds(&store, &everything).await;
    kinds.sort();
    assert_eq!(kinds, [EventKind::Succeeded, EventKind::Late, EventKind::Recovered]);
}

/// By any end: success, death, cancel, discard. A retry is none.
pub async fn an_end_that_does_not_come_is_late(store: Fixture) {
    let expect = Expectation { start_within_ms: Some(300), finish_within_ms: Some(1_000), ..NOTHING };
    let job = expecting(&store, 1, expect).await;
    let mut ids = Vec::new();
    for i in 0..6 {
        ids.push(fired(&store, &job, after(i)).await);
    }
    let mut fences = Vec::new();
    for &id in &ids[..4] {
        fences.push(store.granted(id, 0, after(10)).await);
    }
    let end = |i: usize, event, outcome| g::complete(&fences[i], event, outcome, after(20));
    let ends = vec![
        end(0, Event::Succeed, AttemptOutcome::Succeeded),
        end(1, Event::FailFinal, AttemptOutcome::Failed),
        end(2, Event::FailRetryable, AttemptOutcome::Failed),
    ];
    store.complete(ends).await.unwrap();
    lives::cancel(&store, vec![CancelTarget::Execution(ids[4])], after(30)).await;
    let late = |i: usize, kind, ms: i64| broken(&job, Some(ids[i]), kind, after(i as i64 + ms));
    assert_eq!(
        store.break_watches(after(2_000), 10).await.unwrap(),
        [
            late(5, WatchKind::Start, 300),
            late(2, WatchKind::Finish, 1_000),
            late(3, WatchKind::Finish, 1_000),
            late(5, WatchKind::Finish, 1_000)
        ]
    );
    assert_eq!(store.break_watches(after(9_000), 10).await.unwrap(), []);
}

/// In the order of their instants, as many as are asked for.
pub async fn watches_break_in_order_and_within_the_limit(store: Fixture) {
    let everything = endpoint(1);
    store.put_record(everything.clone().into(), None).await.unwrap();
    let expect = Expectation { start_within_ms: Some(100), success_every_ms: Some(50), ..NOTHING };
    let job = expecting(&store, 1, expect).await;
    for i in [3, 1, 4, 0, 2] {
        fired(&store, &job, after(i)).await;
    }
    let mut due = Vec::new();
    loop {
        let broken = store.break_watches(after(200), 2).await.unwrap();
        assert!(broken.len() <= 2 && broken.is_sorted_by_key(|watch| watch.due_at));
        if broken.is_empty() {
            break;
        }
        due.extend(broken);
    }
    assert_eq!(due.iter().filter(|watch| watch.kind == WatchKind::Start).count(), 5);
    assert_eq!(due.iter().filter(|watch| watch.kind == WatchKind::Success).count(), 1);
    assert_eq!(kinds(&store, &everything).await, [EventKind::Late; 6]);
}

/// A newer version that takes the instant over brings its own expectations.
pub async fn a_newer_version_brings_its_own_expectations(store: Fixture) {
    let strict = Expectation { start_within_ms: Some(100), finish_within_ms: Some(200), ..NOTHING };
    let jobs = [expecting(&store, 1, strict).await, expecting(&store, 2, strict).await];
    for job in &jobs {
        fired(&store, job, DUE).await;
    }
    let easy = Expectation { finish_within_ms: Some(5_000), ..NOTHING };
    let changed = store.change(&jobs[0], after(-10), g::define(&jobs[0], |d| d.expect = easy)).await;
    let free = store.change(&jobs[1], after(-10), g::define(&jobs[1], |d| d.expect = NOTHING)).await;
    let id = fired(&store, &changed, DUE).await;
    fired(&store, &free, DUE).await;
    assert_eq!(store.break_watches(after(4_999), 10).await.unwrap(), []);
    let late = broken(&changed, Some(id), WatchKind::Finish, after(5_000));
    assert_eq!(store.break_watches(after(9_999), 10).await.unwrap(), [late]);
}

/// What is discarded was never to start.
pub async fn what_is_discarded_is_not_late(store: Fixture) {
    let job = expecting(&store, 1, Expectation { start_within_ms: Some(100), ..NOTHING }).await;
    let id = fired(&store, &job, DUE).await;
    store.change(&job, after(-10), g::Change::Pause(None)).await;
    assert!(matches!(store.claimed(id, 0, DUE).await, Claimed::Discarded(_)));
    assert_eq!(store.execution(id).await.state, State::Skipped);
    assert_eq!(store.break_watches(after(1_000), 10).await.unwrap(), []);
}

/// Every success moves it on; without one it breaks once per period, and the next period begins where the last one ended.
pub async fn a_job_must_succeed_in_every_period(store: Fixture) {
    let everything = Endpoint { events: vec![EventKind::Late, EventKind::Recovered], ..endpoint(1) };
    store.put_record(everything.clone().into(), None).await.unwrap();
    // From START on, every 100 s; DUE is 60 s after it.
    let job = expecting(&store, 1, Expectation { success_every_ms: Some(100_000), ..NOTHING }).await;
    succeed(&store, &job, DUE).await;
    assert_eq!(store.break_watches(after(99_999), 10).await.unwrap(), []);
    let late = |ms| broken(&job, None, WatchKind::Success, after(ms));
    assert_eq!(store.break_watches(after(100_000), 10).await.unwrap(), [late(100_000)]);
    assert_eq!(store.break_watches(after(199_999), 10).await.unwrap(), []);
    // Nobody looked for a while: broken once, and the period that runs is the next.
    assert_eq!(store.break_watches(after(550_000), 10).await.unwrap(), [late(200_000)]);
    assert_eq!(store.break_watches(after(599_999), 10).await.unwrap(), []);
    assert_eq!(store.break_watches(after(600_000), 10).await.unwrap(), [late(600_000)]);
    die(&store, &job, after(600_001)).await;
    succeed(&store, &job, after(620_000)).await;
    assert_eq!(store.break_watches(after(719_999), 10).await.unwrap(), []);
    assert_eq!(store.break_watches(after(720_000), 10).await.unwrap(), [late(720_000)]);
    let heard = [EventKind::Late, EventKind::Late, EventKind::Late, EventKind::Recovered, EventKind::Late];
    assert_eq!(kinds(&store, &everything).await, heard);
    let told = told(&store, &everything).await;
    assert!(told[0].execution.is_none() && told[0].data.contains("success_every"));
}

/// A pause and a deletion end it, a resumption and another period begin it anew; other changes leave it.
pub async fn success_is_expected_of_active_jobs(store: Fixture) {
    let expect = Expectation { success_every_ms: Some(1_000), ..NOTHING };
    let job = expecting(&store, 1, expect).await;
    let other = expecting(&store, 2, expect).await;
    let job = store.change(&job, g::at(500), g::define(&job, |d| d.tags = vec!["new".into()])).await;
    let late = |job: &Job, ms| broken(job, None, WatchKind::Success, g::at(ms));
    let broken = async |ms| {
        let mut broken = store.break_watches(g::at(ms), 10).await.unwrap();
        broken.sort_by_key(|watch| watch.job);
        broken
    };
    assert_eq!(broken(1_000).await, [late(&job, 1_000), late(&other, 1_000)], "another tag is no new beginning");
    let job = store.change(&job, g::at(1_500), g::Change::Pause(None)).await;
    store.change(&other, g::at(1_500), g::Change::Delete).await;
    assert_eq!(broken(100_000).await, []);
    let job = store.change(&job, g::at(200_000), g::Change::Resume).await;
    assert_eq!(broken(200_999).await, []);
    assert_eq!(broken(201_000).await, [late(&job, 201_000)]);
    let job = store.change(&job, g::at(201_500), g::define(&job, |d| d.expect.success_every_ms = Some(10_000))).await;
    assert_eq!(broken(211_499).await, []);
    assert_eq!(broken(211_500).await, [late(&job, 211_500)]);
    store.change(&job, g::at(212_000), g::define(&job, |d| d.expect = NOTHING)).await;
    assert_eq!(broken(900_000).await, []);
}

/// Not before the job starts, and not after its last fire; but of a job that only people fire.
pub async fn success_is_expected_while_a_job_may_fire(store: Fixture) {
    let expect = Expectation { success_every_ms: Some(1_000), ..NOTHING };
    let window = Window { starts_at: Some(g::at(50_000)), ..Window::default() };
    let starting = g::job_with(1, |d| (d.expect, d.window) = (expect, window));
    let ended = Window { ends_at: Some(g::at(-1)), ..Window::default() };
    let over = g::job_with(2, |d| (d.expect, d.window) = (expect, ended));
    let by_hand = g::job_with(3, |d| (d.expect, d.schedule) = (expect, Schedule::None));
    for job in [&starting, &over, &by_hand] {
        store.create(job).await;
    }
    let late = |job: &Job, ms| broken(job, None, WatchKind::Success, g::at(ms));
    assert_eq!(store.break_watches(g::at(1_500), 10).await.unwrap(), [late(&by_hand, 1_000)]);
    assert_eq!(store.break_watches(g::at(50_999), 10).await.unwrap(), [late(&by_hand, 2_000)]);
    let both = [late(&by_hand, 51_000), late(&starting, 51_000)];
    let broken = store.break_watches(g::at(51_000), 10).await.unwrap();
    assert!(broken.len() == 2 && both.iter().all(|one| broken.contains(one)), "{broken:?}");
}
