//! External workers on the whole engine: claims, leases, fences, cancels, limits. With time in the test's hands.

mod rig;

use campanile_engine::Cancel;
use campanile_engine::accept::Draft;
use campanile_engine::run::pull::{Beat, Finishing};
use campanile_engine::workers::{Directive, Introduction};
use campanile_model::capacity::{Capacity, Scope};
use campanile_model::execution::{AttemptError, AttemptOutcome, Outcome, Progress, Reason};
use campanile_model::job::{POOL_LONG, Priority};
use campanile_model::lifecycle::State;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::Schedule;
use campanile_model::store::{Extended, JobKey};
use campanile_model::{ExecutionId, Timestamp, limits};
use rig::{HANG, Rig, TENANT, draft, every, with, worker_draft};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

fn succeeded() -> Outcome {
    Outcome::Succeeded { response: None }
}

fn failed(retryable: bool) -> Outcome {
    let error = AttemptError { kind: "Boom".into(), message: "boom 7".into() };
    Outcome::Failed { error, retryable, retry_after_ms: None, pause_job: false, response: None }
}

/// A job without a schedule, fired by hand.
async fn fire(rig: &Rig, draft: Draft) -> ExecutionId {
    let job = rig.create(draft).await;
    rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0.id
}

async fn state(rig: &Rig, execution: ExecutionId) -> State {
    rig.handle.execution(TENANT, execution).await.unwrap().state
}

async fn beat(rig: &Rig, execution: ExecutionId, fence: u64) -> Extended {
    let beat = Beat { execution, fence: Some(fence), progress: None, logs: Vec::new() };
    rig.handle.heartbeat(&"w-1".into(), vec![beat]).await.unwrap().0[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_completes_and_repeats_its_completion() {
    let rig = Rig::new().await;
    let execution = fire(&rig, worker_draft("w", Schedule::None)).await;
    let pulled = rig.pull_one("w-1").await;
    assert_eq!(pulled.granted.fence.execution, execution);
    assert_eq!((&*pulled.handler, &*pulled.granted.definition.payload, pulled.granted.fence.attempt), ("work", "1", 1));
    assert_eq!(state(&rig, execution).await, State::Running, "durable before it is answered");
    assert!(rig.pull("w-2", 10).await.is_empty(), "nobody else gets it");
    let done = Finishing::Done { state: State::Succeeded, next_attempt_at: None };
    assert_eq!(rig.finish(&pulled, succeeded()).await, done);
    assert_eq!(rig.finish(&pulled, succeeded()).await, done, "the same answer again");
    let refused = rig.metrics.stale_refused.get();
    assert_eq!(rig.finish(&pulled, failed(true)).await, Finishing::Stale { state: State::Succeeded });
    assert_eq!(rig.metrics.stale_refused.get(), refused + 1, "and counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_are_claimed_at_once_and_a_long_poll_waits() {
    let rig = Rig::new().await;
    let job = rig.create(worker_draft("w", Schedule::None)).await;
    for _ in 0..1_000 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(50).await;
    assert_eq!(rig.pull("w-1", 1_000).await.len(), 1_000);
    let handle = rig.handle.clone();
    let waiting = tokio::spawn(async move {
        let intro = Introduction { worker: "w-2".into(), capacity: 5, ..Introduction::default() };
        handle.pull(&intro, 30_000).await.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    assert_eq!(waiting.await.unwrap().pulled.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_loses_its_execution_within_the_lease_and_a_second() {
    let rig = Rig::new().await;
    let execution = fire(&rig, with(worker_draft("w", Schedule::None), |d| d.timeout_ms = 600_000)).await;
    let first = rig.pull_one("w-1").await;
    rig.pass(limits::LEASE_MS - 1_000).await;
    let until = rig.now().saturating_add_ms(limits::LEASE_MS as i64);
    assert_eq!(beat(&rig, execution, first.granted.fence.fence).await, Extended::Until(until));
    rig.pass(limits::LEASE_MS - 1_000).await;
    assert_eq!(state(&rig, execution).await, State::Running, "the heartbeat prolonged it");
    rig.pass(2_100).await;
    let second = rig.pull_one("w-2").await;
    assert!(second.granted.fence.fence > first.granted.fence.fence);
    assert_eq!(second.granted.fence.attempt, 2);
    assert!(matches!(beat(&rig, execution, first.granted.fence.fence).await, Extended::Stale { .. }));
    assert_eq!(rig.finish(&first, succeeded()).await, Finishing::Stale { state: State::Running }, "too late");
    assert!(matches!(rig.finish(&second, succeeded()).await, Finishing::Done { state: State::Succeeded, .. }));
    let attempts = rig.store.list_attempts(TENANT, execution).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|a| a.outcome.unwrap()).collect();
    assert_eq!(outcomes, [AttemptOutcome::WorkerLost, AttemptOutcome::Succeeded]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_overruns_its_time_is_told_and_then_loses_it() {
    let rig = Rig::new().await;
    let execution = fire(&rig, with(worker_draft("w", Schedule::None), |d| d.timeout_ms = 40_000)).await;
    let pulled = rig.pull_one("w-1").await;
    for _ in 0..3 {
        rig.pass(13_000).await;
        beat(&rig, execution, pulled.granted.fence.fence).await;
    }
    rig.pass(1_000).await;
    let told = beat(&rig, execution, pulled.granted.fence.fence).await;
    assert!(matches!(told, Extended::Cancel { reason: None, .. }), "{told:?}");
    rig.pass(limits::TIMEOUT_GRACE_MS - 2_000).await;
    assert_eq!(state(&rig, execution).await, State::Running, "it gets a moment to say so");
    rig.pass(4_000).await;
    let attempts = rig.store.list_attempts(TENANT, execution).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::TimedOut));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_kills_its_workers_is_poison() {
    let rig = Rig::new().await;
    let retry = RetryPolicy { max_attempts: 1_000, backoff: Backoff::Fixed, initial_delay_ms: 0, ..Default::default() };
    let execution =
        fire(&rig, with(worker_draft("w", Schedule::None), |d| (d.retry, d.timeout_ms) = (retry, 600_000))).await;
    for _ in 0..limits::LOSSES_MAX {
        rig.pull_one("w-1").await;
        rig.pass(limits::LEASE_MS + 1_100).await;
    }
    let dead = rig.handle.execution(TENANT, execution).await.unwrap();
    assert_eq!((dead.state, dead.reason, dead.deliveries), (State::Dead, Some(Reason::Poison), limits::LOSSES_MAX));
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_of_workers_lead_where_they_say() {
    let rig = Rig::new().await;
    let execution = fire(&rig, worker_draft("w", Schedule::None)).await;
    let pulled = rig.pull_one("w-1").await;
    let released = rig.finish(&pulled, Outcome::Released).await;
    assert!(matches!(released, Finishing::Done { state: State::Pending, .. }), "{released:?}");
    let pulled = rig.pull_one("w-1").await;
    assert_eq!(pulled.granted.fence.attempt, 1, "a release burns no attempt");
    let snoozed = rig.finish(&pulled, Outcome::Snoozed { for_ms: 1_000 }).await;
    assert!(matches!(snoozed, Finishing::Done { state: State::Retrying, next_attempt_at: Some(_) }), "{snoozed:?}");
    rig.pass(1_100).await;
    let pulled = rig.pull_one("w-1").await;
    assert_eq!(pulled.granted.fence.attempt, 1, "nor does a snooze");
    assert!(matches!(rig.finish(&pulled, failed(true)).await, Finishing::Done { state: State::Retrying, .. }));
    rig.pass(200).await;
    let pulled = rig.pull_one("w-1").await;
    assert_eq!(pulled.granted.fence.attempt, 2);
    assert!(matches!(rig.finish(&pulled, failed(false)).await, Finishing::Done { state: State::Dead, .. }));
    let dead = rig.handle.execution(TENANT, execution).await.unwrap();
    assert_eq!((dead.reason, dead.deliveries), (Some(Reason::PermanentFailure), 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_reach_the_next_attempt_and_logs_are_kept() {
    let rig = Rig::new().await;
    let execution = fire(&rig, worker_draft("w", Schedule::None)).await;
    let pulled = rig.pull_one("w-1").await;
    let progress = Progress { fraction: Some(0.5), checkpoint: Some(r#"{"row":7}"#.into()), ..Progress::default() };
    let line = campanile_model::execution::LogLine { at: rig.now(), level: "info".into(), message: "half".into() };
    let fence = Some(pulled.granted.fence.fence);
    let beats = vec![Beat { execution, fence, progress: Some(progress), logs: vec![line.clone()] }];
    rig.handle.heartbeat(&"w-1".into(), beats).await.unwrap();
    rig.finish(&pulled, failed(true)).await;
    rig.pass(200).await;
    assert_eq!(rig.pull_one("w-2").await.granted.checkpoint.as_deref(), Some(r#"{"row":7}"#));
    let logs = rig.store.reports(TENANT, execution, 0, 10).await.unwrap().logs;
    assert_eq!(logs.into_iter().map(|(_, line)| line).collect::<Vec<_>>(), [line]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_in_its_three_cases() {
    let rig = Rig::new().await;
    // A fire that has not come.
    let at = rig.now().saturating_add_ms(5_000);
    let job = rig.create(worker_draft("future", Schedule::At { at })).await;
    let key = JobKey::Id(job.id);
    let early = rig.handle.cancel_fire(TENANT, &key, at.saturating_add_ms(1), Cancel::default()).await.unwrap_err();
    assert_eq!(early.fields()[0].code, "not_a_fire");
    let (cancelled, _) = rig.handle.cancel_fire(TENANT, &key, at, Cancel::default()).await.unwrap();
    assert_eq!(cancelled.state, State::Cancelled);
    rig.pass(6_000).await;
    assert!(rig.pull("w-1", 10).await.is_empty(), "an acknowledged cancel means no start");
    assert_eq!(rig.executions(job.id).await.len(), 1);
    // A pending one.
    let pending = fire(&rig, worker_draft("pending", Schedule::None)).await;
    rig.handle.cancel(TENANT, pending, Cancel::default()).await.unwrap();
    assert!(rig.pull("w-1", 10).await.is_empty());
    // A running one, that stops when it is asked to.
    let running = fire(&rig, with(worker_draft("running", Schedule::None), |d| d.timeout_ms = 600_000)).await;
    let pulled = rig.pull_one("w-1").await;
    let (asked, _) = rig.handle.cancel(TENANT, running, Cancel::default()).await.unwrap();
    assert_eq!((asked.state, asked.cancel_requested_at), (State::Running, Some(rig.now())));
    let told = beat(&rig, running, pulled.granted.fence.fence).await;
    assert!(matches!(told, Extended::Cancel { reason: Some(Reason::CancelledByUser), .. }), "{told:?}");
    let done = rig.finish(&pulled, Outcome::Cancelled).await;
    assert!(matches!(done, Finishing::Done { state: State::Cancelled, .. }), "{done:?}");
    let late = rig.handle.cancel(TENANT, running, Cancel::default()).await.unwrap_err();
    assert_eq!(late.code(), "execution_final");
    // One that was asked and failed is not tried again; one that does not listen loses its lease after the grace.
    let failing = fire(&rig, worker_draft("failing", Schedule::None)).await;
    let pulled = rig.pull_one("w-1").await;
    rig.handle.cancel(TENANT, failing, Cancel::default()).await.unwrap();
    assert!(matches!(rig.finish(&pulled, failed(true)).await, Finishing::Done { state: State::Cancelled, .. }));
    // Just after a start, workers get the time of a lease to be heard of.
    rig.pass(limits::LEASE_MS).await;
    let deaf = fire(&rig, with(worker_draft("deaf", Schedule::None), |d| d.timeout_ms = 600_000)).await;
    let pulled = rig.pull_one("w-1").await;
    rig.handle.cancel(TENANT, deaf, Cancel { grace_ms: Some(3_000), ..Cancel::default() }).await.unwrap();
    rig.pass(2_500).await;
    assert_eq!(state(&rig, deaf).await, State::Running);
    rig.pass(1_600).await;
    assert_eq!(state(&rig, deaf).await, State::Cancelled);
    assert_eq!(rig.finish(&pulled, succeeded()).await, Finishing::Stale { state: State::Cancelled });
}

fn pool(slots: Option<u32>, paused: bool) -> Capacity {
    let (tenant, scope, name) = (TENANT, Scope::Pool, "etl".into());
    let updated_at = campanile_model::Timestamp::from_millis(0);
    Capacity { tenant, scope, name, slots, per_second_milli: None, paused, updated_at }
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_have_slots_and_can_be_paused() {
    let rig = Rig::new().await;
    rig.handle.put_capacity(pool(Some(2), false)).await.unwrap();
    let job = rig.create(with(worker_draft("w", Schedule::None), |d| d.pool = "etl".into())).await;
    for _ in 0..5 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(50).await;
    let pulled = rig.pull("w-1", 10).await;
    assert_eq!(pulled.len(), 2);
    assert!(rig.pull("w-2", 10).await.is_empty());
    rig.finish(&pulled[0], succeeded()).await;
    assert_eq!(rig.pull("w-2", 10).await.len(), 1);
    rig.handle.put_capacity(pool(None, true)).await.unwrap();
    assert!(rig.pull("w-2", 10).await.is_empty(), "paused");
    rig.handle.put_capacity(pool(None, false)).await.unwrap();
    assert_eq!(rig.pull("w-2", 10).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_of_a_pool_hold_for_webhooks_too() {
    let rig = Rig::new().await;
    rig.handle.put_capacity(pool(Some(1), false)).await.unwrap();
    let hang =
        campanile_model::action::ActionSpec { kind: campanile_model::action::ActionKind::Webhook, config: HANG.into() };
    let hanging = with(draft("hang", Schedule::None), |d| (d.pool, d.action) = ("etl".into(), hang));
    let first = fire(&rig, hanging).await;
    rig.until("the first runs", || rig.seen().len() == 1).await;
    let second = fire(&rig, with(draft("next", Schedule::None), |d| d.pool = "etl".into())).await;
    rig.pass(500).await;
    assert_eq!(state(&rig, second).await, State::Pending);
    rig.handle.cancel(TENANT, first, Cancel::default()).await.unwrap();
    rig.pass(1_500).await;
    assert_eq!(state(&rig, second).await, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_work_never_delays_short_work() {
    let rig = Rig::new().await;
    let hang =
        campanile_model::action::ActionSpec { kind: campanile_model::action::ActionKind::Webhook, config: HANG.into() };
    let long =
        with(draft("long", Schedule::None), |d| (d.pool, d.action, d.timeout_ms) = (POOL_LONG.into(), hang, 600_000));
    let long = rig.create(long).await;
    // Far more than there are slots.
    for _ in 0..200 {
        rig.handle.run_now(TENANT, &JobKey::Id(long.id), None).await.unwrap();
    }
    rig.pass(100).await;
    let short = fire(&rig, draft("short", Schedule::None)).await;
    rig.pass(50).await;
    let short = rig.handle.execution(TENANT, short).await.unwrap();
    assert_eq!(short.state, State::Succeeded);
    assert!(short.started_at.unwrap().ms_since(short.fire_at) <= 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn priorities_are_served_in_order_with_a_share_for_the_low_ones() {
    let rig = Rig::new().await;
    for (name, priority) in [("low", Priority::Low), ("critical", Priority::Critical)] {
        let job = rig.create(with(worker_draft(name, Schedule::None), |d| d.priority = priority)).await;
        for _ in 0..100 {
            rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
        }
    }
    rig.pass(50).await;
    let first: Vec<_> = rig.pull("w-1", 45).await.iter().map(|p| p.granted.definition.name.clone()).collect();
    let low = first.iter().filter(|name| *name == "low").count();
    assert!((1..=9).contains(&low), "{low} of 45");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_only_its_handlers_and_does_as_it_is_told() {
    let rig = Rig::new().await;
    fire(&rig, worker_draft("w", Schedule::None)).await;
    let intro = |handlers: &[&str]| Introduction {
        worker: "w-1".into(),
        handlers: handlers.iter().map(|&h| h.into()).collect(),
        capacity: 5,
        ..Introduction::default()
    };
    rig.pass(50).await;
    assert!(rig.handle.pull(&intro(&["other"]), 0).await.unwrap().pulled.is_empty());
    rig.handle.direct("w-1", Directive::Quiet).unwrap();
    let quiet = rig.handle.pull(&intro(&["work"]), 0).await.unwrap();
    assert_eq!((quiet.pulled.len(), quiet.directive), (0, Directive::Quiet));
    rig.handle.direct("w-1", Directive::Run).unwrap();
    assert_eq!(rig.handle.pull(&intro(&["other", "work"]), 0).await.unwrap().pulled.len(), 1);
    assert_eq!(rig.handle.direct("nobody", Directive::Run).unwrap_err().code(), "worker_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_hears_of_a_drain_and_counts_as_present() {
    let rig = Rig::new().await;
    let (handle, worker) = (rig.handle.clone(), "w-1");
    let waiting = tokio::spawn(async move {
        let intro = Introduction { worker: worker.into(), capacity: 1, ..Introduction::default() };
        handle.pull(&intro, 60_000).await.unwrap()
    });
    rig.until("its claim waits", || rig.handle.serving("short", "work") == 1).await;
    rig.pass(30_000).await;
    assert_eq!(rig.handle.serving("short", "work"), 1, "it is there as long as its claim waits");
    rig.handle.direct(worker, Directive::Drain).unwrap();
    assert_eq!(waiting.await.unwrap().directive, Directive::Drain, "without waiting for the minute to pass");
    let intro = Introduction { worker: "w-2".into(), capacity: 1, ..Introduction::default() };
    assert!(tokio::time::timeout(Duration::from_millis(20), rig.handle.pull(&intro, 60_000)).await.is_err());
    rig.pass(2 * limits::HEARTBEAT_MS + 1_000).await;
    assert_eq!(rig.handle.serving("short", "work"), 0, "one that hung up is gone");
}

/// What a future answers without waiting; it is dropped if it has to.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_up_leaves_nothing_behind() {
    let rig = Rig::new().await;
    let job = rig.create(worker_draft("w", Schedule::None)).await;
    let intro = Introduction { worker: "gone".into(), capacity: 1, ..Introduction::default() };
    let (mut hung_up, mut answered) = (0, 0);
    for round in 0..60 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
        // Dropped as soon as it waits for anything, dropped at any point of the claim, or not at all.
        let pull = rig.handle.pull(&intro, 30_000);
        let answer = match round % 3 {
            0 => poll_once(pull).await,
            1 => tokio::time::timeout(Duration::from_micros(round * 50), pull).await.ok(),
            _ => Some(pull.await),
        };
        let pulled = match answer.and_then(|answer| answer.unwrap().pulled.pop()) {
            Some(pulled) => {
                answered += 1;
                pulled
            }
            None => {
                hung_up += 1;
                rig.pull_one("w-2").await
            }
        };
        assert_eq!(pulled.granted.fence.attempt, 1, "it burned no attempt");
        rig.finish(&pulled, succeeded()).await;
    }
    assert!(hung_up > 0 && answered > 0, "{hung_up} hung up, {answered} answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_total_time_limit_covers_all_attempts() {
    let rig = Rig::scripted(|_| failed(true)).await;
    let retry = RetryPolicy {
        max_attempts: 100,
        backoff: Backoff::Fixed,
        initial_delay_ms: 1_000,
        max_delay_ms: 1_000,
        total_timeout_ms: Some(5_000),
    };
    let job = rig.create(with(draft("total", every(3_600_000)), |d| d.retry = retry)).await;
    let execution = rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0.id;
    rig.pass(8_000).await;
    let dead = rig.handle.execution(TENANT, execution).await.unwrap();
    assert_eq!((dead.state, dead.reason), (State::Dead, Some(Reason::TotalTimeout)));
    assert!((4..=6).contains(&dead.attempt), "{}", dead.attempt);
    let shown: Arc<str> = dead.target;
    assert_eq!(&*shown, "http://target");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_keeps_failing_is_probed_and_not_stormed() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let script = broken.clone();
    let rig = Rig::scripted(move |_| match script.load(std::sync::atomic::Ordering::Relaxed) {
        true => failed(true),
        false => succeeded(),
    })
    .await;
    let retry = RetryPolicy {
        max_attempts: 50,
        backoff: Backoff::Fixed,
        initial_delay_ms: 10,
        max_delay_ms: 10,
        ..Default::default()
    };
    let job = rig.create(with(draft("storm", Schedule::None), |d| d.retry = retry)).await;
    for _ in 0..50 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(5_000).await;
    let tries = rig.seen().len();
    assert!(tries < 150, "{tries} tries in 5 s of 50 executions that would each have tried 50 times");
    let parked = rig.executions(job.id).await;
    assert!(parked.iter().any(|e| e.reason == Some(Reason::CircuitOpen)), "the reason is in the row");
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    rig.pass(20_000).await;
    assert!(rig.executions(job.id).await.iter().all(|e| e.state == State::Succeeded), "it is back, and so are they");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_has_slots_and_a_rate() {
    let rig = Rig::new().await;
    let limit = |slots, per_second_milli| Capacity {
        scope: Scope::Target,
        name: "http://target".into(),
        slots,
        per_second_milli,
        ..pool(None, false)
    };
    rig.handle.put_capacity(limit(None, Some(2_000))).await.unwrap();
    let job = rig.create(draft("rated", Schedule::None)).await;
    let first = rig.now().millis();
    for _ in 0..6 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(1_100).await;
    let early = rig.seen().len();
    assert!((2..=4).contains(&early), "{early} in 1.1 s at 2/s");
    assert!(rig.executions(job.id).await.iter().any(|e| e.reason == Some(Reason::RateLimited)));
    rig.pass(3_000).await;
    assert_eq!(rig.seen().len(), 6);
    let starts: Vec<i64> = rig.seen().iter().map(|s| s.at.millis()).collect();
    // Each has its turn, and may be late for it; none is early.
    assert!(starts.iter().zip(0..).all(|(at, n)| at - first >= 500 * n), "{starts:?} from {first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_finds_the_fires_that_a_clock_ahead_has_passed() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(30_000);
    let draft = worker_draft("ahead", Schedule::At { at });
    let job = rig.create(draft.clone()).await;
    // The owner's clock is ahead: it fires, and its cursor passes the instant.
    rig.clock.jump(60_000);
    rig.pass(2_500).await;
    assert_eq!(rig.executions(job.id).await.len(), 1);
    rig.clock.jump(-60_000);
    rig.replace(job.id, with(draft, |d| d.payload = "2".into())).await;
    rig.pass(28_000).await;
    let pulled = rig.pull_one("w-1").await;
    assert_eq!(
        (&*pulled.granted.definition.payload, pulled.granted.fire_at),
        ("2", at),
        "the newer version governs it"
    );
}

/// What an earlier version still owes is cancelled like any other fire, although the schedule of today has none there.
#[tokio::test(flavor = "multi_thread")]
async fn a_fire_of_an_earlier_schedule_is_cancelled() {
    let rig = Rig::new().await;
    let job = rig.create(worker_draft("a", every(1_000))).await;
    let at = Timestamp::from_millis((rig.now().millis() / 1_000 + 1) * 1_000);
    rig.pass(1_500).await;
    rig.replace(job.id, worker_draft("a", every(3_600_000))).await;
    let (cancelled, _) = rig.handle.cancel_fire(TENANT, &JobKey::Id(job.id), at, Cancel::default()).await.unwrap();
    assert_eq!((cancelled.fire_at, cancelled.job_version, cancelled.state), (at, 1, State::Cancelled));
    let later = at.saturating_add_ms(60_000);
    let none = rig.handle.cancel_fire(TENANT, &JobKey::Id(job.id), later, Cancel::default()).await.unwrap_err();
    assert_eq!(none.fields()[0].code, "not_a_fire");
}
