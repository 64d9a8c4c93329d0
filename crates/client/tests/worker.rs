//! The worker against a scheduler of a few lines: what it says, and when.

#![allow(missing_docs, reason = "the names say it")]

mod fake;

use campanile_client::wire::{BeatStatus, CompleteRequest, CompleteStatus, Directive};
use campanile_client::worker::{Counts, Ctx, Failure, Outcome, Stop, Worker, limits};
use campanile_client::{Client, Error, Result};
use fake::{Fake, execution};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A worker at work.
struct Working {
    stop: Arc<Notify>,
    task: JoinHandle<Result<Counts>>,
}

fn start(worker: Worker) -> Working {
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    Working { stop, task: tokio::spawn(worker.run_until(async move { stopped.notified().await })) }
}

impl Working {
    /// Tells it to end, and waits until it has.
    async fn end(self) -> Counts {
        self.stop.notify_one();
        self.ended().await.expect("it ends well")
    }

    async fn ended(self) -> Result<Counts> {
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it ends").expect("no panic")
    }
}

/// Runs `worker` until the executions are completed, and returns how.
async fn complete(fake: &Fake, worker: Worker, ids: &[&'static str]) -> Vec<CompleteRequest> {
    let working = start(worker);
    let all = ids.to_vec();
    fake.until("all are completed", move |book| all.iter().all(|id| book.completion(id).is_some())).await;
    working.end().await;
    fake.with(|book| ids.iter().map(|id| book.completion(id).unwrap().complete.clone()).collect())
}

/// Whether a future was dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicBool>);

struct OnDrop(Dropped);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

impl Dropped {
    fn guard(&self) -> OnDrop {
        OnDrop(self.clone())
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(serde::Deserialize)]
struct Numbered {
    n: u64,
}

async fn double(p: Numbered, ctx: Ctx) -> Result<u64, Outcome> {
    ctx.log("info", format!("try {} of {} for {}", ctx.attempt(), ctx.max_attempts(), ctx.job_name()));
    Ok(p.n * 2)
}

async fn endless(_: Value, ctx: Ctx) -> Result<(), Outcome> {
    ctx.cancelled().await;
    Err(Outcome::Cancelled)
}

#[tokio::test]
async fn typed_work_is_claimed_run_and_completed() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "double", json!({"n": 21}))));
    let worker = Worker::new(client).worker_id("w-1").pools(["p"]).handler("double", double).concurrency(3);
    let done = complete(&fake, worker, &["e1"]).await.remove(0);
    assert_eq!((done.status, done.result), (CompleteStatus::Succeeded, Some(json!(42))));
    assert_eq!((done.fence_token, done.worker_id.as_deref()), (Some(7), Some("w-1")));
    assert!(done.duration_ms.is_some());
    assert_eq!(done.logs[0].message, "try 2 of 3 for name");
    fake.with(|book| {
        let claim = &book.claims[0];
        assert_eq!((claim.worker_id.as_str(), claim.capacity, claim.wait_ms), ("w-1", 3, 30_000));
        assert_eq!((&claim.pools[..], &claim.handlers[..]), (&["p".to_owned()][..], &["double".to_owned()][..]));
        assert!(claim.sdk.as_ref().unwrap().starts_with("rust/"));
    });
}

#[tokio::test]
async fn every_outcome_is_told() {
    async fn outcome(what: String, _: Ctx) -> Result<(), Outcome> {
        match what.as_str() {
            "retry" => Err(std::io::Error::other("disk"))?,
            "later" => return Err(Outcome::RetryAfter(Duration::from_secs(90), "busy".into())),
            "snooze" => return Err(Outcome::Snooze(Duration::from_secs(60))),
            "permanent" => return Err(Outcome::Permanent(Failure::new("no_tenant", "no such tenant"))),
            "cancelled" => return Err(Outcome::Cancelled),
            _ => panic!("what is {what}"),
        }
        Ok(())
    }
    let (fake, client) = Fake::start().await;
    let ids = ["retry", "later", "snooze", "permanent", "cancelled", "panic", "unreadable"];
    for id in ids {
        let payload = if id == "unreadable" { json!(7) } else { json!(id) };
        fake.with(|book| book.queue.push_back(execution(id, "outcome", payload)));
    }
    let done = complete(&fake, Worker::new(client).handler("outcome", outcome).concurrency(2), &ids).await;
    let told: Vec<_> = done
        .iter()
        .map(|complete| {
            let error = complete.error.as_ref();
            let kind = error.map(|error| (error.kind.as_str(), error.message.as_str(), error.retryable));
            (complete.status, kind, error.and_then(|error| error.retry_after_ms), complete.snooze_ms)
        })
        .collect();
    use CompleteStatus::{Cancelled, Failed, Snoozed};
    assert_eq!(told[0], (Failed, Some(("std::io::error::Error", "disk", true)), None, None));
    assert_eq!(told[1], (Failed, Some(("error", "busy", true)), Some(90_000), None));
    assert_eq!(told[2], (Snoozed, None, None, Some(60_000)));
    assert_eq!(told[3], (Failed, Some(("no_tenant", "no such tenant", false)), None, None));
    assert_eq!(told[4], (Cancelled, None, None, None));
    assert_eq!(told[5], (Failed, Some(("panic", "what is panic", true)), None, None));
    let (status, Some((kind, _, retryable)), ..) = told[6] else { panic!("{:?}", told[6]) };
    assert_eq!((status, kind, retryable), (Failed, "payload_invalid", false));
}

#[tokio::test]
async fn heartbeats_carry_news_and_bring_cancel_back() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let worker = Worker::new(client).handler("h", |_: Value, ctx: Ctx| async move {
        ctx.progress_with(0.5, "half way");
        ctx.log("warn", "slow");
        ctx.checkpoint(json!({"page": 3}))?;
        ctx.cancelled().await;
        assert_eq!(ctx.stopping(), Some(Stop::Cancelled));
        Err::<(), _>(Outcome::Cancelled)
    });
    let working = start(worker);
    fake.until("the news are told", |book| book.beats.iter().any(|beat| beat.progress == Some(0.5))).await;
    fake.with(|book| {
        let news = book.beats.iter().find(|beat| beat.progress.is_some()).unwrap();
        assert_eq!((news.fence_token, news.message.as_deref()), (7, Some("half way")));
        assert_eq!((&news.checkpoint, news.logs[0].message.as_str()), (&Some(json!({"page": 3})), "slow"));
    });
    let told = fake.with(|book| book.beats.len());
    fake.until("it beats on", move |book| book.beats.len() > told + 2).await;
    fake.with(|book| {
        assert!(book.beats[told + 2..].iter().all(|beat| beat.progress.is_none() && beat.logs.is_empty()));
        book.beat_status.insert("e1".into(), BeatStatus::Cancel);
    });
    fake.until("it is cancelled", |book| book.completion("e1").is_some()).await;
    assert_eq!(working.end().await.completed, 1);
    fake.with(|book| assert_eq!(book.completions[0].complete.status, CompleteStatus::Cancelled));
}

#[tokio::test]
async fn a_handler_that_ignores_cancel_is_dropped_after_the_grace() {
    let (fake, client) = Fake::start().await;
    let dropped = Dropped::default();
    let seen = dropped.clone();
    fake.with(|book| {
        book.queue.push_back(execution("e1", "h", json!(null)));
        book.beat_status.insert("e1".into(), BeatStatus::Cancel);
    });
    let worker = Worker::new(client).cancel_grace(Duration::from_millis(50)).handler("h", move |_: Value, _| {
        let guard = dropped.guard();
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(())
        }
    });
    let done = complete(&fake, worker, &["e1"]).await.remove(0);
    assert_eq!((done.status, done.error.unwrap().kind.as_str()), (CompleteStatus::Cancelled, "cancelled"));
    assert!(seen.is());
}

#[tokio::test]
async fn a_stale_attempt_is_dropped_at_once_and_tells_nothing() {
    let (fake, client) = Fake::start().await;
    let dropped = Dropped::default();
    let seen = dropped.clone();
    fake.with(|book| {
        book.queue.push_back(execution("stale", "h", json!(null)));
        book.beat_status.insert("stale".into(), BeatStatus::Stale);
    });
    let worker = Worker::new(client)
        .cancel_grace(Duration::from_secs(600))
        .handler("h", move |_: Value, _| {
            let guard = dropped.guard();
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                Ok(())
            }
        })
        .handler("double", double);
    let working = start(worker);
    // There is room for one: the next starts when the stale one is gone.
    fake.until("it is claimed", |book| book.queue.is_empty()).await;
    fake.with(|book| book.queue.push_back(execution("next", "double", json!({"n": 1}))));
    fake.until("the next is done", |book| book.completion("next").is_some()).await;
    let counts = working.end().await;
    assert_eq!((counts.claimed, counts.completed, counts.stale), (2, 1, 1));
    assert!(seen.is() && fake.with(|book| book.completion("stale").is_none()));
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_dropped_and_timed_out() {
    let (fake, client) = Fake::start().await;
    for id in ["quick", "late"] {
        let mut short = execution(id, id, json!(null));
        short.timeout_ms = 30;
        fake.with(|book| book.queue.push_back(short));
    }
    let dropped = Dropped::default();
    let seen = dropped.clone();
    let worker = Worker::new(client)
        .concurrency(2)
        .timeout_grace(Duration::from_millis(50))
        .handler("quick", move |_: Value, ctx: Ctx| {
            let guard = dropped.guard();
            async move {
                assert!(ctx.time_left() <= Duration::from_millis(30) && ctx.deadline().is_some());
                std::future::pending::<()>().await;
                drop(guard);
                Ok(())
            }
        })
        .handler("late", |_: Value, ctx: Ctx| async move {
            ctx.cancelled().await;
            Ok(json!("too late"))
        });
    let done = complete(&fake, worker, &["quick", "late"]).await;
    for complete in done {
        assert_eq!((complete.status, complete.result), (CompleteStatus::TimedOut, None));
        assert_eq!(complete.error.unwrap().kind, "timeout");
    }
    assert!(seen.is());
}

#[tokio::test]
async fn ends_are_told_until_the_server_answers() {
    let (fake, client) = Fake::start().await;
    let working = start(Worker::new(client).concurrency(10).handler("double", double));
    fake.until("it waits for work", |book| book.polling == 1).await;
    fake.with(|book| {
        book.complete_status.insert("gone".into(), 409);
        book.queue.extend(["a", "b", "gone"].map(|id| execution(id, "double", json!({"n": 1}))));
        book.unavailable = 4;
    });
    fake.until("all are told", |book| book.completions.len() == 3).await;
    let counts = working.end().await;
    assert_eq!((counts.claimed, counts.completed, counts.stale, counts.unanswered), (3, 2, 1, 0));
}

#[tokio::test]
async fn trouble_with_one_end_holds_up_no_other() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| {
        book.complete_status.insert("stuck".into(), 503);
        book.queue.extend(["stuck", "a", "b"].map(|id| execution(id, "double", json!({"n": 1}))));
    });
    let working = start(Worker::new(client).handler("double", double));
    fake.until("the others are told", |book| book.completion("a").is_some() && book.completion("b").is_some()).await;
    fake.with(|book| book.complete_status.clear());
    let counts = working.end().await;
    assert_eq!((counts.completed, counts.unanswered), (3, 0));
}

#[tokio::test]
async fn a_batch_that_is_refused_is_sent_one_by_one() {
    let (fake, client) = Fake::start().await;
    let ids = ["a", "b", "c", "d"];
    fake.with(|book| {
        book.refuse_batches = true;
        book.queue.extend(ids.map(|id| execution(id, "h", json!(null))));
    });
    // They end together, so that they would be one batch.
    let together = Arc::new(tokio::sync::Barrier::new(ids.len()));
    let worker = Worker::new(client).concurrency(ids.len()).handler("h", move |_: Value, _| {
        let together = together.clone();
        async move {
            together.wait().await;
            Ok(())
        }
    });
    let done = complete(&fake, worker, &ids).await;
    assert!(done.iter().all(|complete| complete.status == CompleteStatus::Succeeded));
    fake.with(|book| assert_eq!(book.batches, [1; 4]));
}

#[tokio::test]
async fn what_cannot_be_run_is_given_back() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "unknown", json!(null))));
    let working = start(Worker::new(client).handler("double", double));
    fake.until("it is released", |book| book.released == [("e1".to_owned(), 7)]).await;
    let counts = working.end().await;
    assert_eq!((counts.claimed, counts.released, counts.completed), (1, 1, 0));
}

#[tokio::test]
async fn any_handler_takes_what_has_no_other() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| {
        book.queue.push_back(execution("named", "double", json!({"n": 4})));
        book.queue.push_back(execution("other", "whatever", json!({"n": 4})));
    });
    let worker = Worker::new(client)
        .handler("double", double)
        .any_handler(|_: Value, ctx: Ctx| async move { Ok(ctx.execution().handler.clone()) });
    let done = complete(&fake, worker, &["named", "other"]).await;
    assert_eq!((&done[0].result, &done[1].result), (&Some(json!(8)), &Some(json!("whatever"))));
    fake.with(|book| assert!(book.claims[0].handlers.is_empty()));
}

#[tokio::test]
async fn a_worker_that_ends_lets_its_work_finish() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Arc::new(tokio::sync::Mutex::new(finished));
    let worker = Worker::new(client).handler("h", move |_: Value, ctx: Ctx| {
        let finished = finished.clone();
        async move {
            let _ = (&mut *finished.lock().await).await;
            Ok(ctx.is_cancelled())
        }
    });
    let working = start(worker);
    fake.until("it runs", |book| !book.beats.is_empty()).await;
    working.stop.notify_one();
    // It still beats, and nothing more is claimed.
    let (beats, claims) = fake.with(|book| (book.beats.len(), book.claims.len()));
    fake.with(|book| book.queue.push_back(execution("e2", "h", json!(null))));
    fake.until("it beats on", move |book| book.beats.len() > beats + 3).await;
    let _ = finish.send(());
    let counts = working.ended().await.unwrap();
    assert_eq!((counts.claimed, counts.completed), (1, 1));
    fake.with(|book| {
        assert_eq!(book.completions[0].complete.result, Some(json!(false)));
        assert_eq!(book.claims.len(), claims);
    });
}

#[tokio::test]
async fn what_outlasts_the_grace_is_stopped_and_tried_again() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let worker = Worker::new(client).grace(Duration::from_millis(50)).handler("h", endless);
    let working = start(worker);
    fake.until("it runs", |book| !book.beats.is_empty()).await;
    assert_eq!(working.end().await.completed, 1);
    fake.with(|book| {
        let complete = &book.completions[0].complete;
        let error = complete.error.as_ref().unwrap();
        assert_eq!((complete.status, error.kind.as_str()), (CompleteStatus::Failed, "worker_stopped"));
        assert!(error.retryable);
    });
}

#[tokio::test]
async fn the_server_can_end_a_worker() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let working = start(Worker::new(client).grace(Duration::from_millis(50)).concurrency(2).handler("h", endless));
    fake.until("it runs", |book| !book.beats.is_empty()).await;
    fake.with(|book| book.directive = Directive::Drain);
    let counts = working.ended().await.unwrap();
    assert_eq!((counts.claimed, counts.completed), (1, 1));
}

#[tokio::test]
async fn a_quiet_worker_keeps_what_runs_and_claims_nothing() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let working = start(Worker::new(client).grace(Duration::ZERO).concurrency(2).handler("h", endless));
    fake.until("it runs and asks for more", |book| !book.beats.is_empty() && book.polling == 1).await;
    fake.with(|book| book.directive = Directive::Quiet);
    fake.until("its poll is answered", |book| book.polling == 0).await;
    let (beats, claims) = fake.with(|book| (book.beats.len(), book.claims.len()));
    fake.until("it beats on", move |book| book.beats.len() > beats + 5).await;
    fake.with(|book| assert_eq!(book.claims.len(), claims));
    working.end().await;
}

#[tokio::test]
async fn a_checkpoint_arrives_before_the_failure_that_follows_it() {
    let (fake, client) = Fake::start().await;
    let mut slow_beats = execution("e1", "h", json!(null));
    slow_beats.heartbeat_ms = 60_000;
    fake.with(|book| book.queue.push_back(slow_beats));
    let worker = Worker::new(client).handler("h", |_: Value, ctx: Ctx| async move {
        ctx.checkpoint(json!(1))?;
        ctx.checkpoint(json!(2))?;
        Err::<(), _>(Outcome::retry("after two"))
    });
    let working = start(worker);
    fake.until("it failed", |book| {
        let arrived = book.beats.iter().any(|beat| beat.checkpoint == Some(json!(2)));
        assert!(book.completions.is_empty() || arrived, "the end came first");
        !book.completions.is_empty()
    })
    .await;
    working.end().await;
}

#[tokio::test]
async fn many_run_side_by_side_and_end_in_batches() {
    const ALL: usize = 1_000;
    const SLOTS: usize = 50;
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.extend((0..ALL).map(|n| execution(&format!("e{n}"), "h", json!(n)))));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (now.clone(), most.clone());
    let worker = Worker::new(client).concurrency(SLOTS).handler("h", move |n: usize, _| {
        let (now, most) = (counted.clone(), peak.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(n)
        }
    });
    let working = start(worker);
    fake.until("all are completed", |book| book.completions.len() == ALL).await;
    let counts = working.end().await;
    assert_eq!((counts.claimed, counts.completed, counts.stale), (ALL as u64, ALL as u64, 0));
    assert!(most.load(Ordering::SeqCst) <= SLOTS);
    fake.with(|book| {
        assert!(book.batches.iter().all(|batch| *batch <= 100) && book.batches.len() < ALL / 2, "{:?}", book.batches);
        assert!(book.claims.iter().all(|claim| claim.capacity as usize <= SLOTS));
        let mut ids: Vec<&str> = book.completions.iter().map(|completion| completion.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ALL);
    });
}

#[tokio::test]
async fn large_results_are_cut_with_a_note() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let worker = Worker::new(client).handler("h", |_: Value, ctx: Ctx| async move {
        ctx.output("o".repeat(100_000));
        for _ in 0..2 * limits::LOG_LINES_MAX {
            ctx.log("info", "again");
        }
        Ok("x".repeat(100_000))
    });
    let done = complete(&fake, worker, &["e1"]).await.remove(0);
    assert_eq!(done.result.unwrap()["truncated"], true);
    assert_eq!(done.output.unwrap().len(), limits::OUTPUT_BYTES_MAX);
    assert_eq!(done.logs.len(), limits::LOG_LINES_MAX);
}

#[tokio::test]
async fn a_worker_waits_for_its_server() {
    let reserved = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let working = start(Worker::new(Client::new(&format!("http://{address}")).unwrap()).handler("double", double));
    // Nobody listens there yet, which it must not take for an end.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!working.task.is_finished());
    let fake = Fake::listen(tokio::net::TcpListener::bind(address).await.unwrap());
    fake.with(|book| book.queue.push_back(execution("e1", "double", json!({"n": 1}))));
    fake.until("it is done", |book| book.completion("e1").is_some()).await;
    assert_eq!(working.end().await.completed, 1);
}

#[tokio::test]
async fn a_refusal_for_good_ends_the_worker() {
    let (fake, client) = Fake::start().await;
    fake.with(|book| book.refuse_claims = Some(403));
    let error = start(Worker::new(client.clone()).handler("double", double)).ended().await.unwrap_err();
    assert_eq!(error.status(), Some(403));
    let idle = Worker::new(client).run_until(std::future::pending()).await;
    assert!(matches!(idle, Err(Error::Request(_))), "no handler");
}
