//! Nothing silent: each reason of the closed set is produced, recorded, and told by `why`.

mod rig;

use campanile_engine::Cancel;
use campanile_engine::jobs::Conditions;
use campanile_engine::operate::{BackfillSpec, Reprocess, Terms};
use campanile_engine::why::Verdict;
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{AttemptError, Outcome, Reason};
use campanile_model::job::{Blackout, Job};
use campanile_model::lifecycle::State;
use campanile_model::overlap::Overlap;
use campanile_model::schedule::Schedule;
use campanile_model::store::{JobKey, Keep, Retention};
use campanile_model::{Timestamp, limits};
use rig::{Rig, TENANT, draft, every, with, worker_draft};

fn failed(retryable: bool) -> Outcome {
    let error = AttemptError { kind: "Boom".into(), message: "boom".into() };
    Outcome::Failed { error, retryable, retry_after_ms: None, pause_job: false, response: None }
}

async fn check(rig: &Rig, job: &Job, at: Timestamp, verdict: Verdict, reason: Option<Reason>) {
    let why = rig.handle.why(TENANT, &JobKey::Id(job.id), at).await.unwrap();
    assert_eq!((why.verdict, why.reason), (verdict, reason), "{}: {why:#?}", job.name());
    assert!(!why.evidence.is_empty(), "{why:#?}");
}

/// The next fire of a job that fires every second.
fn next_second(rig: &Rig) -> Timestamp {
    Timestamp::from_millis((rig.now().millis() / 1_000 + 1) * 1_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ran_needs_no_reason_and_says_where_the_time_went() {
    let rig = Rig::new().await;
    let job = rig.create(draft("ran", every(1_000))).await;
    let at = next_second(&rig);
    rig.pass(2_000).await;
    check(&rig, &job, at, Verdict::Ran, None).await;
    let why = rig.handle.why(TENANT, &JobKey::Id(job.id), at).await.unwrap();
    assert!(why.evidence.iter().any(|line| line.contains("scheduler") && line.contains("queue")), "{why:#?}");
    let execution = why.execution.unwrap();
    let chain = [execution.queued_at, execution.claimed_at, execution.started_at, execution.finished_at];
    let chain: Vec<Timestamp> = std::iter::once(Some(at)).chain(chain).map(Option::unwrap).collect();
    assert!(chain.is_sorted(), "{chain:?}");
    assert!(execution.fired_at <= at.saturating_add_ms(100), "durable about when it was due: {}", execution.fired_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn not_due_paused_and_blackout() {
    let rig = Rig::new().await;
    let at = next_second(&rig);
    let job = rig.create(draft("paused", every(1_000))).await;
    check(&rig, &job, at.saturating_add_ms(1), Verdict::WillRun, Some(Reason::NotDue)).await;
    let yearly = rig.create(draft("yearly", Schedule::At { at: at.saturating_add_ms(86_400_000) })).await;
    check(&rig, &yearly, at, Verdict::DidNotRun, Some(Reason::NotDue)).await;
    let paused = rig.handle.pause(TENANT, &JobKey::Id(job.id), None, Conditions::default()).await;
    assert!(paused.is_ok());
    rig.pass(2_000).await;
    check(&rig, &job, at, Verdict::DidNotRun, Some(Reason::Paused)).await;
    rig.handle.resume(TENANT, &JobKey::Id(job.id), Conditions::default()).await.unwrap();
    check(&rig, &job, at, Verdict::DidNotRun, Some(Reason::Paused)).await;
    let at = next_second(&rig);
    let blackouts = vec![Blackout { from: at, to: at.saturating_add_ms(1) }];
    let job = rig.create(with(draft("blackout", every(1_000)), |d| d.blackouts = blackouts.into())).await;
    check(&rig, &job, at, Verdict::DidNotRun, Some(Reason::Blackout)).await;
    rig.pass(2_000).await;
    check(&rig, &job, at, Verdict::DidNotRun, Some(Reason::Blackout)).await;
    // In a pause that is not over, nobody records blackouts.
    let at = next_second(&rig);
    let blackouts = vec![Blackout { from: at, to: at.saturating_add_ms(1) }];
    let job = rig.create(with(draft("both", every(1_000)), |d| d.blackouts = blackouts.into())).await;
    rig.handle.pause(TENANT, &JobKey::Id(job.id), None, Conditions::default()).await.unwrap();
    rig.pass(2_000).await;
    check(&rig, &job, at, Verdict::DidNotRun, Some(Reason::Paused)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overlap_forbidden_replaced_and_waiting() {
    let rig = Rig::new().await;
    for (policy, newer, older) in [
        (Overlap::Skip, (Verdict::DidNotRun, Some(Reason::OverlapForbidden)), (Verdict::Running, None)),
        (Overlap::BufferOne, (Verdict::Waiting, Some(Reason::DependencyWaiting)), (Verdict::Running, None)),
        (Overlap::TerminateOther, (Verdict::Running, None), (Verdict::DidNotRun, Some(Reason::OverlapReplaced))),
    ] {
        let name = policy.as_str();
        let overlap = with(worker_draft(name, Schedule::None), |d| (d.overlap, d.timeout_ms) = (policy, 600_000));
        let job = rig.create(overlap).await;
        let mut fired = Vec::new();
        for _ in 0..2 {
            fired.push(rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0.fire_at);
            rig.pass(1_100).await;
            rig.pull("w-1", 10).await;
        }
        check(&rig, &job, fired[1], newer.0, newer.1).await;
        check(&rig, &job, fired[0], older.0, older.1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn misfires_are_discarded_coalesced_or_expired() {
    let rig = Rig::new().await;
    let modes = [
        (CatchUpMode::None, u64::MAX, Reason::MisfireDiscarded),
        (CatchUpMode::Last, u64::MAX, Reason::MisfireCoalesced),
        (CatchUpMode::Last, 1_000, Reason::Expired),
    ];
    let mut jobs = Vec::new();
    for (i, (mode, max_age_ms, reason)) in modes.into_iter().enumerate() {
        let catch_up = CatchUp { mode, max_age_ms, drip_ms: 0 };
        jobs.push((rig.create(with(draft(&format!("m{i}"), every(60_000)), |d| d.catch_up = catch_up)).await, reason));
    }
    let missed = Timestamp::from_millis((rig.now().millis() / 60_000 + 2) * 60_000);
    rig.clock.advance(3_600_000);
    rig.pass(1_000).await;
    for (job, reason) in jobs {
        check(&rig, &job, missed, Verdict::DidNotRun, Some(reason)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_rate_and_circuit() {
    use campanile_model::capacity::{Capacity, Scope};
    let rig = Rig::new().await;
    let capacity = |scope, name: &str, slots, paused| Capacity {
        tenant: TENANT,
        scope,
        name: name.into(),
        slots,
        per_second_milli: None,
        paused,
        updated_at: rig.now(),
    };
    rig.handle.put_capacity(capacity(Scope::Pool, "etl", Some(1), false)).await.unwrap();
    let job = rig.create(with(worker_draft("quota", Schedule::None), |d| d.pool = "etl".into())).await;
    let key = JobKey::Id(job.id);
    rig.handle.run_now(TENANT, &key, None).await.unwrap();
    rig.pull_one("w-1").await;
    rig.pass(1_100).await;
    let second = rig.handle.run_now(TENANT, &key, None).await.unwrap().0;
    rig.pass(100).await;
    check(&rig, &job, second.fire_at, Verdict::Waiting, Some(Reason::QuotaDeferred)).await;
    rig.handle.put_capacity(capacity(Scope::Pool, "etl", None, true)).await.unwrap();
    check(&rig, &job, second.fire_at, Verdict::Waiting, Some(Reason::Paused)).await;
    let limit = Capacity { per_second_milli: Some(10), ..capacity(Scope::Target, "http://target", None, false) };
    rig.handle.put_capacity(limit).await.unwrap();
    let job = rig.create(draft("rated", Schedule::None)).await;
    let mut last = None;
    for _ in 0..2 {
        rig.pass(1_100).await;
        last = Some(rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0);
    }
    rig.pass(100).await;
    check(&rig, &job, last.unwrap().fire_at, Verdict::Waiting, Some(Reason::RateLimited)).await;
    // The circuit: `workers.rs` shows that it opens; here, that it is told.
    let rig = Rig::scripted(|_| failed(true)).await;
    let job = rig.create(draft("circuit", Schedule::None)).await;
    for _ in 0..20 {
        rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap();
    }
    rig.pass(1_500).await;
    let late = rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0;
    rig.pass(50).await;
    check(&rig, &job, late.fire_at, Verdict::Waiting, Some(Reason::CircuitOpen)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deduplicated_stale_version_no_leader_no_worker() {
    let rig = Rig::new().await;
    let job = rig.create(worker_draft("none", Schedule::None)).await;
    let waiting = rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0;
    rig.pass(100).await;
    check(&rig, &job, waiting.fire_at, Verdict::Waiting, Some(Reason::NoWorker)).await;
    // A fire that succeeded is passed over by a backfill.
    let job = rig.create(draft("dedup", every(1_000))).await;
    let at = next_second(&rig);
    rig.pass(2_000).await;
    let spec = BackfillSpec {
        job: job.id.to_string(),
        from_ms: at.millis(),
        to_ms: at.millis() + 1,
        reprocess: Reprocess::None,
        terms: Terms::default(),
    };
    let plan = rig.handle.preview_backfill(TENANT, &spec).await.unwrap();
    assert_eq!((plan.fires, plan.starts), (1, 0));
    assert_eq!(plan.samples[0].reason(), Some(Reason::Deduplicated));
    // A change just before the instant: the row that was made ahead belongs to the older version.
    let at = rig.now().saturating_add_ms(10_000);
    let one_off = rig.create(draft("stale", Schedule::At { at })).await;
    rig.pass(10_000 - limits::LEAD_MS_MIN / 2).await;
    assert_eq!(rig.executions(one_off.id).await.len(), 1, "durable ahead");
    let later = rig.now().saturating_add_ms(60_000);
    rig.replace(one_off.id, draft("stale", Schedule::At { at: later })).await;
    rig.pass(1_000).await;
    check(&rig, &one_off, at, Verdict::DidNotRun, Some(Reason::StaleVersion)).await;
}

/// Seen: retention removed a success, and a skip lay over it; the answer was that it did not run, with a backfill as the remedy.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_pruned_is_no_longer_kept_and_not_skipped() {
    let rig = Rig::new().await;
    let job = rig.create(draft("pruned", every(1_000))).await;
    let key = JobKey::Id(job.id);
    let ran = next_second(&rig);
    rig.pass(2_000).await;
    rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
    rig.pass(3_500).await;
    rig.handle.resume(TENANT, &key, Conditions::default()).await.unwrap();
    let (filled, skipped) = (ran.saturating_add_ms(3_000), ran.saturating_add_ms(4_000));
    // Somebody fills one of the instants that were passed over.
    let spec = BackfillSpec {
        job: job.id.to_string(),
        from_ms: filled.millis(),
        to_ms: filled.millis() + 1,
        reprocess: Reprocess::None,
        terms: Terms::default(),
    };
    rig.handle.backfill(TENANT, spec).await.unwrap();
    rig.pass(20_000).await;
    check(&rig, &job, ran, Verdict::Ran, None).await;
    check(&rig, &job, filled, Verdict::Ran, None).await;
    check(&rig, &job, skipped, Verdict::DidNotRun, Some(Reason::Paused)).await;
    let states = State::ALL.map(|state| Keep { state, age_ms: Some(0), count: None }).to_vec();
    let kept = u64::MAX;
    let mut nothing = Retention { states, rollups_ms: kept, deliveries_ms: kept, skips_ms: kept, versions_ms: kept };
    rig.pass(10_000).await;
    while rig.store.prune(&nothing, rig.now(), 100).await.unwrap().more {}
    for at in [ran, filled] {
        check(&rig, &job, at, Verdict::NoLongerKept, None).await;
        let why = rig.handle.why(TENANT, &key, at).await.unwrap();
        assert!(why.fixes.is_empty() && why.skip.is_none(), "{why:#?}");
    }
    check(&rig, &job, skipped, Verdict::DidNotRun, Some(Reason::Paused)).await;
    // Nor is anything known when the version of that time is gone too.
    nothing.versions_ms = 0;
    while rig.store.prune(&nothing, rig.now(), 100).await.unwrap().more {}
    check(&rig, &job, ran, Verdict::NoLongerKept, None).await;
}

/// Somebody fills an instant of a pause that is not over, and retention deletes the run before the pause ends.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_filled_in_during_a_pause_is_no_longer_kept_and_not_paused() {
    let rig = Rig::new().await;
    let job = rig.create(draft("filled", every(1_000))).await;
    let key = JobKey::Id(job.id);
    rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
    let (filled, skipped) = (next_second(&rig), next_second(&rig).saturating_add_ms(1_000));
    rig.pass(3_500).await;
    let spec = BackfillSpec {
        job: job.id.to_string(),
        from_ms: filled.millis(),
        to_ms: filled.millis() + 1,
        reprocess: Reprocess::None,
        terms: Terms::default(),
    };
    rig.handle.backfill(TENANT, spec.clone()).await.unwrap();
    rig.pass(20_000).await;
    check(&rig, &job, filled, Verdict::Ran, None).await;
    let states = State::ALL.map(|state| Keep { state, age_ms: Some(0), count: None }).to_vec();
    let kept = u64::MAX;
    let mut nothing = Retention { states, rollups_ms: kept, deliveries_ms: kept, skips_ms: kept, versions_ms: kept };
    while rig.store.prune(&nothing, rig.now(), 100).await.unwrap().more {}
    let is_told = async || {
        check(&rig, &job, filled, Verdict::NoLongerKept, None).await;
        check(&rig, &job, skipped, Verdict::DidNotRun, Some(Reason::Paused)).await;
        let plan = rig.handle.preview_backfill(TENANT, &spec).await.unwrap();
        assert_eq!((plan.fires, plan.starts), (1, 0), "it ran, and is not made up for again");
    };
    is_told().await;
    rig.handle.resume(TENANT, &key, Conditions::default()).await.unwrap();
    is_told().await;
    // When the skip is gone as well, nobody knows of either of them.
    nothing.skips_ms = 0;
    rig.pass(2_000).await;
    while rig.store.prune(&nothing, rig.now(), 100).await.unwrap().more {}
    for at in [filled, skipped] {
        check(&rig, &job, at, Verdict::NoLongerKept, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_executions() {
    let rig = Rig::scripted(|work| failed(work.definition.payload.as_ref() == "1")).await;
    let exhausted = rig.create(draft("exhausted", Schedule::None)).await;
    let permanent = rig.create(with(draft("permanent", Schedule::None), |d| d.payload = "2".into())).await;
    let cancelled = rig.create(worker_draft("cancelled", Schedule::None)).await;
    let deleted = rig.create(worker_draft("deleted", Schedule::None)).await;
    let mut fired = Vec::new();
    for job in [&exhausted, &permanent, &cancelled, &deleted] {
        fired.push(rig.handle.run_now(TENANT, &JobKey::Id(job.id), None).await.unwrap().0);
    }
    rig.handle.cancel(TENANT, fired[2].id, Cancel { note: Some("no".into()), ..Cancel::default() }).await.unwrap();
    rig.handle.delete(TENANT, &JobKey::Id(deleted.id), Conditions::default()).await.unwrap();
    rig.pass(1_000).await;
    assert!(rig.pull("w-1", 10).await.is_empty());
    check(&rig, &exhausted, fired[0].fire_at, Verdict::Failed, Some(Reason::AttemptsExhausted)).await;
    check(&rig, &permanent, fired[1].fire_at, Verdict::Failed, Some(Reason::PermanentFailure)).await;
    check(&rig, &cancelled, fired[2].fire_at, Verdict::DidNotRun, Some(Reason::CancelledByUser)).await;
    let gone = rig.handle.execution(TENANT, fired[3].id).await.unwrap();
    assert_eq!((gone.state, gone.reason), (State::Skipped, Some(Reason::JobDeleted)));
    rig.handle.bury(TENANT, vec![fired[1].id], "known").await.unwrap();
    check(&rig, &permanent, fired[1].fire_at, Verdict::DidNotRun, Some(Reason::DiscardedByUser)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_leader_is_told_while_nobody_fires() {
    let rig = Rig::new().await;
    let job = rig.create(draft("orphan", every(1_000))).await;
    let at = next_second(&rig);
    let handle = rig.handle.clone();
    rig.stop().await;
    rig.clock.advance(2_000);
    let why = handle.why(TENANT, &JobKey::Id(job.id), at).await.unwrap();
    assert_eq!((why.verdict, why.reason), (Verdict::Waiting, Some(Reason::NoLeader)), "{why:#?}");
}
