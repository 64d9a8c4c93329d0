//! Replays, backfills and notifications on the whole engine.

mod rig;

use campanile_engine::operate::{self, BackfillSpec, Progress, ReplaySpec, Reprocess, Terms};
use campanile_model::execution::{AttemptError, AttemptOutcome, Outcome};
use campanile_model::lifecycle::State;
use campanile_model::notify::{DeliveryState, Endpoint, EventKind, Expectation};
use campanile_model::operation::{Operation, OperationState};
use campanile_model::retry::RetryPolicy;
use campanile_model::schedule::Schedule;
use campanile_model::store::JobKey;
use campanile_model::{JobId, OperationId};
use rig::{Rig, TENANT, draft, every, with, worker_draft};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn failed() -> Outcome {
    let error = AttemptError { kind: "Boom".into(), message: "boom at 12:00".into() };
    Outcome::Failed { error, retryable: false, retry_after_ms: None, pause_job: false, response: None }
}

/// A rig whose webhooks fail while the flag is set, and `count` dead executions of one job.
async fn dead(count: usize) -> (Rig, JobId, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(true));
    let script = broken.clone();
    let rig = Rig::scripted(move |_| match script.load(Ordering::Relaxed) {
        true => failed(),
        false => Outcome::Succeeded { response: None },
    })
    .await;
    let job = rig.create(draft("d", Schedule::None)).await;
    for _ in 0..count {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(100).await;
    assert!(rig.executions(job.id).await.iter().all(|e| e.state == State::Dead));
    (rig, job.id, broken)
}

async fn ended(rig: &Rig, id: OperationId) -> (Operation, Progress) {
    for _ in 0..200 {
        rig.pass(500).await;
        let operation = rig.handle.operation(TENANT, id).await.unwrap();
        if operation.state != OperationState::Running {
            let progress = operate::progress_of(&operation).unwrap();
            return (operation, progress);
        }
    }
    panic!("the operation did not end in 100 s");
}

fn replay(terms: Terms) -> ReplaySpec {
    ReplaySpec { filter: "job:d".into(), terms, ..ReplaySpec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_runs_all_that_match_and_keeps_their_attempts() {
    let (rig, job, broken) = dead(25).await;
    let groups = rig.store.dead_groups(TENANT, 10).await.unwrap();
    assert_eq!((groups.len(), groups[0].count, &*groups[0].kind), (1, 25, "Boom"));
    broken.store(false, Ordering::Relaxed);
    let (count, more, samples) = rig.handle.preview_replay(TENANT, &replay(Terms::default())).await.unwrap();
    assert_eq!((count, more, samples.len()), (0, false, 0), "a preview without `before` sees nothing");
    let spec = replay(Terms { canary: Some(5), stop_if_failing_percent: Some(20.0), ..Terms::default() });
    let operation = rig.handle.replay(TENANT, spec).await.unwrap();
    let (operation, progress) = ended(&rig, operation.id).await;
    assert_eq!((operation.state, progress.started, progress.succeeded), (OperationState::Done, 25, 25));
    let executions = rig.executions(job).await;
    assert!(executions.iter().all(|e| e.state == State::Succeeded));
    let attempts = rig.store.list_attempts(TENANT, executions[0].id).await.unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|a| a.outcome.unwrap()).collect();
    assert_eq!(outcomes, [AttemptOutcome::Failed, AttemptOutcome::Succeeded]);
    assert!(rig.store.dead_groups(TENANT, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_canary_stops_a_replay() {
    let (rig, job, _) = dead(25).await;
    let spec = replay(Terms { canary: Some(5), stop_if_failing_percent: Some(20.0), ..Terms::default() });
    let operation = rig.handle.replay(TENANT, spec).await.unwrap();
    let (operation, progress) = ended(&rig, operation.id).await;
    assert_eq!((operation.state, progress.started, progress.failed), (OperationState::Stopped, 5, 5));
    let tried_twice = rig.executions(job).await.iter().filter(|e| e.attempt == 2).count();
    assert_eq!(tried_twice, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_its_rate_and_can_be_cancelled() {
    let (rig, job, broken) = dead(50).await;
    broken.store(false, Ordering::Relaxed);
    let spec = replay(Terms { per_second: Some(5.0), ..Terms::default() });
    let operation = rig.handle.replay(TENANT, spec).await.unwrap();
    rig.pass(3_000).await;
    let done = rig.executions(job).await.iter().filter(|e| e.state == State::Succeeded).count();
    assert!((10..=20).contains(&done), "{done} in 3 s at 5/s");
    rig.handle.cancel_operation(TENANT, operation.id).await.unwrap();
    rig.pass(500).await;
    let before = rig.executions(job).await.iter().filter(|e| e.state == State::Succeeded).count();
    rig.pass(2_000).await;
    let after = rig.executions(job).await.iter().filter(|e| e.state == State::Succeeded).count();
    assert_eq!(before, after);
    let again = rig.handle.cancel_operation(TENANT, operation.id).await.unwrap_err();
    assert_eq!(again.code(), "operation_final");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_fills_what_was_missed_and_passes_over_what_succeeded() {
    let rig = Rig::new().await;
    let catch_up =
        campanile_model::catch_up::CatchUp { mode: campanile_model::catch_up::CatchUpMode::None, ..Default::default() };
    let job = rig.create(with(draft("b", every(60_000)), |d| d.catch_up = catch_up)).await;
    let start = rig.now();
    rig.pass(121_000).await;
    rig.clock.advance(600_000);
    rig.pass(1_000).await;
    let before = rig.executions(job.id).await.len();
    let spec = BackfillSpec {
        job: job.id.to_string(),
        from_ms: start.millis(),
        to_ms: rig.now().millis(),
        reprocess: Reprocess::None,
        terms: Terms { max_open: Some(2), ..Terms::default() },
    };
    let plan = rig.handle.preview_backfill(TENANT, &spec).await.unwrap();
    assert_eq!(plan.starts, plan.fires - before as u64);
    let operation = rig.handle.backfill(TENANT, spec.clone()).await.unwrap();
    let (operation, progress) = ended(&rig, operation.id).await;
    assert_eq!((operation.state, progress.succeeded), (OperationState::Done, plan.starts));
    assert_eq!(progress.passed_over, before as u64);
    let executions = rig.executions(job.id).await;
    let within = executions.iter().filter(|e| e.fire_at.millis() < spec.to_ms && e.state == State::Succeeded).count();
    assert_eq!(within as u64, plan.fires, "every fire of the range has succeeded once");
    let again = rig.handle.preview_backfill(TENANT, &spec).await.unwrap();
    assert_eq!(again.starts, 0);
    let future = BackfillSpec { to_ms: rig.now().millis() + 60_000, ..spec };
    assert_eq!(rig.handle.preview_backfill(TENANT, &future).await.unwrap_err().fields()[0].code, "range_invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_their_endpoint_and_are_tried_again() {
    let (rig, _, broken) = dead(0).await;
    let endpoint = Endpoint {
        id: rig.handle.new_endpoint_id(),
        tenant: TENANT,
        url: "http://ops".into(),
        events: EventKind::ALL.to_vec(),
        job: None,
        tag: None,
        paused: false,
        created_at: rig.now(),
    };
    let bad = Endpoint { url: "nonsense".into(), ..endpoint.clone() };
    assert_eq!(rig.handle.put_endpoint(bad).await.unwrap_err().fields()[0].code, "url_invalid");
    rig.handle.put_endpoint(endpoint.clone()).await.unwrap();
    let job = rig.create(draft("noisy", Schedule::None)).await;
    rig.letters.status.store(500, Ordering::Relaxed);
    rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    rig.pass(5_000).await;
    let tries = rig.letters.taken.lock().len();
    assert!(tries >= 2, "tried again");
    rig.letters.status.store(204, Ordering::Relaxed);
    broken.store(false, Ordering::Relaxed);
    rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    rig.pass(20_000).await;
    let letters = rig.letters.taken.lock().clone();
    let kinds = |word: &str| letters.iter().filter(|(.., body)| body.contains(&format!(".{word}.v1"))).count();
    assert_eq!(kinds("succeeded"), 1);
    assert_eq!(kinds("recovered"), 1, "it had been dead");
    let ids: std::collections::HashSet<_> = letters.iter().map(|(_, id, _)| id).collect();
    assert_eq!(ids.len(), 3, "one id per event, whatever the tries");
    let log = rig.store.list_deliveries(TENANT, endpoint.id, None, 10).await.unwrap().items;
    assert!(log.iter().all(|delivery| delivery.state == DeliveryState::Delivered), "{log:?}");
    assert!(rig.handle.replay_delivery(TENANT, endpoint.id, log[0].seq).await.unwrap());
    rig.pass(1_000).await;
    assert_eq!(rig.letters.taken.lock().len(), letters.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn expectations_are_watched() {
    let rig = Rig::new().await;
    let endpoint = Endpoint {
        id: rig.handle.new_endpoint_id(),
        tenant: TENANT,
        url: "http://ops".into(),
        events: vec![EventKind::Late, EventKind::Recovered],
        job: None,
        tag: None,
        paused: false,
        created_at: rig.now(),
    };
    rig.handle.put_endpoint(endpoint).await.unwrap();
    let expect =
        Expectation { start_within_ms: Some(2_000), finish_within_ms: Some(10_000), success_every_ms: Some(60_000) };
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let job = rig
        .create(with(worker_draft("e", Schedule::None), |d| {
            (d.expect, d.retry, d.timeout_ms) = (expect, retry, 600_000)
        }))
        .await;
    rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    let late = |word: &str| {
        let letters = rig.letters.taken.lock();
        letters.iter().filter(|(.., body)| body.contains(".late.v1") && body.contains(word)).count()
    };
    rig.pass(1_500).await;
    assert_eq!(late(""), 0);
    rig.pass(3_000).await;
    assert_eq!((late("start_within"), late("finish_within")), (1, 0));
    let pulled = rig.pull_one("w-1").await;
    rig.pass(8_000).await;
    assert_eq!(late("finish_within"), 1);
    rig.finish(&pulled, Outcome::Succeeded { response: None }).await;
    rig.pass(2_000).await;
    let recovered = |rig: &Rig| rig.letters.taken.lock().iter().filter(|(.., b)| b.contains(".recovered.v1")).count();
    assert_eq!(recovered(&rig), 1);
    rig.pass(62_000).await;
    assert_eq!(late("success_every"), 1);
}
