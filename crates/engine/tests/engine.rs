//! The whole engine on the real embedded store, with time in the test's hands.

mod rig;

use campanile_engine::Cancel;
use campanile_engine::accept::Draft;
use campanile_engine::jobs::Conditions;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{AttemptError, AttemptOutcome, Outcome, Reason};
use campanile_model::job::{Cursor, JobState, Priority};
use campanile_model::lifecycle::State;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{DstFold, DstGap, Schedule};
use campanile_model::shard;
use campanile_model::store::{CursorMove, JobKey, ZoneDatabase};
use campanile_model::{Kind, Timestamp, limits};
use rig::{HANG, Rig, TENANT, draft, every, with};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

fn failing(retryable: bool, pause_job: bool) -> Outcome {
    let error = AttemptError { kind: "http_503".into(), message: "no".into() };
    Outcome::Failed { error, retryable, retry_after_ms: None, pause_job, response: None }
}

fn noop(draft: Draft) -> Draft {
    with(draft, |d| d.action = ActionSpec { kind: ActionKind::Noop, config: "{}".into() })
}

/// Every second since `from`, up to and including `to`.
fn seconds(from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let first = from.millis() / 1_000 + 1;
    (first..=to.millis() / 1_000).map(|s| Timestamp::from_millis(s * 1_000)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fire_starts_once_on_time_and_never_early() {
    let rig = Rig::new().await;
    let start = rig.now();
    let webhook = rig.create(draft("webhook", every(1_000))).await;
    let instant = rig.create(noop(draft("instant", every(1_000)))).await;
    rig.pass(5_200).await;
    for job in [webhook, instant] {
        let executions = rig.executions(job.id).await;
        let done: Vec<Timestamp> =
            executions.iter().filter(|e| e.state == State::Succeeded).map(|e| e.fire_at).collect();
        assert_eq!(done, seconds(start, rig.now()), "{}", job.name());
        assert!(executions.iter().all(|e| e.started_at.is_none_or(|at| at >= e.fire_at)));
        assert!(executions.iter().filter(|e| e.state == State::Succeeded).all(|e| e.attempt == 1 && e.fence > 0));
    }
    let seen = rig.seen();
    assert!(seen.iter().all(|s| s.at >= s.fire_at), "never early");
    assert_eq!(seen.iter().map(|s| s.execution).collect::<HashSet<_>>().len(), seen.len(), "never twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_durable_before_their_instant() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(10_000);
    let job = rig.create(draft("soon", Schedule::At { at })).await;
    rig.pass(10_000 - limits::LEAD_MS_MIN / 2).await;
    let executions = rig.executions(job.id).await;
    assert_eq!(executions.len(), 1);
    assert_eq!(executions[0].state, State::Pending);
    assert!(rig.seen().is_empty());
    rig.pass(limits::LEAD_MS_MIN).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_just_before_the_instant_runs_the_new_version_once() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(5_000);
    let job = rig.create(draft("changed", Schedule::At { at })).await;
    rig.pass(4_900).await;
    assert_eq!(rig.executions(job.id).await.len(), 1, "made ahead of its instant");
    rig.replace(job.id, with(draft("changed", Schedule::At { at }), |d| d.payload = "2".into())).await;
    rig.pass(300).await;
    let seen = rig.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].payload, "2");
    let executions = rig.executions(job.id).await;
    assert_eq!(executions.len(), 1);
    assert_eq!((executions[0].state, executions[0].job_version), (State::Succeeded, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recurring_job_changed_under_way_misses_nothing() {
    let rig = Rig::new().await;
    let start = rig.now();
    let job = rig.create(draft("busy", every(1_000))).await;
    for version in 0..8 {
        rig.pass(430).await;
        rig.replace(job.id, with(draft("busy", every(1_000)), |d| d.payload = format!("{version}").into())).await;
    }
    rig.pass(1_200).await;
    let done: Vec<Timestamp> =
        rig.executions(job.id).await.iter().filter(|e| e.state == State::Succeeded).map(|e| e.fire_at).collect();
    assert_eq!(done, seconds(start, rig.now()));
    let seen = rig.seen();
    assert_eq!(seen.iter().map(|s| s.execution).collect::<HashSet<_>>().len(), seen.len(), "never twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_stops_at_once_and_resume_goes_on_from_now() {
    let rig = Rig::new().await;
    let job = rig.create(draft("paused", every(1_000))).await;
    let key = JobKey::Id(job.id);
    // Paused when the next execution is durable already, and its instant has not come.
    rig.pass(900).await;
    rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
    rig.pass(5_000).await;
    assert!(rig.seen().is_empty());
    let executions = rig.executions(job.id).await;
    assert_eq!(executions.len(), 1);
    assert_eq!((executions[0].state, executions[0].reason), (State::Skipped, Some(Reason::Paused)));
    let resumed_at = rig.now();
    rig.handle.resume(TENANT, &key, Conditions::default()).await.unwrap();
    rig.pass(2_200).await;
    let fires: Vec<Timestamp> = rig.seen().iter().map(|s| s.fire_at).collect();
    assert_eq!(fires, seconds(resumed_at, rig.now()), "no catch-up");
    let skips = rig.store.list_skips(TENANT, job.id, None, 10).await.unwrap().items;
    assert!(skips.iter().any(|s| s.reason == Reason::Paused && s.to == resumed_at), "{skips:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_job_starts_nothing_more() {
    let rig = Rig::new().await;
    let job = rig.create(draft("gone", every(1_000))).await;
    rig.pass(900).await;
    rig.handle.delete(TENANT, &JobKey::Id(job.id), Conditions::default()).await.unwrap();
    rig.pass(3_000).await;
    assert!(rig.seen().is_empty());
    let executions = rig.executions(job.id).await;
    assert_eq!((executions[0].state, executions[0].reason), (State::Skipped, Some(Reason::JobDeleted)));
    assert_eq!(
        rig.handle.pause(TENANT, &JobKey::Id(job.id), None, Conditions::default()).await.unwrap_err().kind(),
        Kind::NotFound
    );
    rig.create(draft("gone", every(60_000))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_execution_is_retried_and_then_dead_with_its_history() {
    let rig = Rig::scripted(|_| failing(true, false)).await;
    let at = rig.now().saturating_add_ms(1_000);
    let job = rig.create(draft("failing", Schedule::At { at })).await;
    rig.pass(4_000).await;
    let execution = rig.executions(job.id).await.pop().unwrap();
    assert_eq!((execution.state, execution.attempt), (State::Dead, 3));
    assert_eq!(execution.reason, Some(Reason::AttemptsExhausted));
    let attempts = rig.store.list_attempts(TENANT, execution.id).await.unwrap();
    assert_eq!(attempts.iter().map(|a| a.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(attempts.iter().all(|a| a.outcome == Some(AttemptOutcome::Failed)));
    assert!(attempts.windows(2).all(|w| w[0].fence < w[1].fence), "fences grow");
    let starts: Vec<Timestamp> = rig.seen().iter().map(|s| s.at).collect();
    assert!(starts.windows(2).all(|w| w[1].ms_since(w[0]) >= 100), "backoff is waited for: {starts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_failure_is_dead_at_once_and_a_gone_target_pauses_the_job() {
    let rig = Rig::scripted(|_| failing(false, true)).await;
    let job = rig.create(draft("gone-target", every(1_000))).await;
    rig.pass(3_500).await;
    assert_eq!(rig.seen().len(), 1);
    let executions = rig.executions(job.id).await;
    assert_eq!((executions[0].state, executions[0].reason), (State::Dead, Some(Reason::PermanentFailure)));
    let job = rig.store.get_jobs(TENANT, &[JobKey::Id(job.id)]).await.unwrap().pop().flatten().unwrap();
    assert_eq!((job.state, job.version), (JobState::Paused, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_before_the_start_means_no_start_and_while_running_ends_it() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(1_000);
    let pending = rig.create(draft("pending", Schedule::At { at })).await;
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    let running = rig.create(with(draft("running", Schedule::At { at }), |d| d.action = hang)).await;
    rig.pass(900).await;
    let execution = rig.executions(pending.id).await.pop().unwrap();
    assert_eq!(rig.handle.cancel(TENANT, execution.id, Cancel::default()).await.unwrap().0.state, State::Cancelled);
    rig.pass(200).await;
    assert!(rig.seen().iter().all(|s| s.execution != execution.id));
    let execution = rig.executions(running.id).await.pop().unwrap();
    assert_eq!(execution.state, State::Running);
    assert_eq!(rig.handle.cancel(TENANT, execution.id, Cancel::default()).await.unwrap().0.state, State::Cancelled);
    let error = rig.handle.cancel(TENANT, execution.id, Cancel::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Conflict, "execution_final"));
    rig.pass(30_000).await;
    assert_eq!(rig.executions(running.id).await.pop().unwrap().state, State::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_now_runs_once_per_key() {
    let rig = Rig::new().await;
    let job = rig.create(draft("by-hand", Schedule::None)).await;
    let key = JobKey::Name("by-hand".into());
    let (first, replayed) = rig.handle.run_now(TENANT, &key, Some("k".into())).await.unwrap();
    assert!(!replayed);
    rig.pass(500).await;
    let (again, replayed) = rig.handle.run_now(TENANT, &key, Some("k".into())).await.unwrap();
    assert!(replayed);
    assert_eq!((again.id, again.state), (first.id, State::Succeeded));
    rig.handle.run_now(TENANT, &key, None).await.unwrap();
    rig.handle.run_now(TENANT, &key, None).await.unwrap();
    rig.pass(200).await;
    assert_eq!(rig.executions(job.id).await.len(), 3);
    assert_eq!(rig.seen().len(), 3);
}

/// A jump of an hour, in one moment: what a stop, a sleep or an administrator does.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_hour_of_absence_every_fire_has_an_outcome_by_its_policy() {
    let rig = Rig::new().await;
    let start = rig.now();
    let policy = |mode| CatchUp { mode, max_age_ms: 86_400_000, drip_ms: 0 };
    let modes = [
        ("none", CatchUpMode::None),
        ("last", CatchUpMode::Last),
        ("all", CatchUpMode::All),
        ("last-n", CatchUpMode::LastN(7)),
        ("coalesced", CatchUpMode::Coalesced),
    ];
    let mut jobs = Vec::new();
    for (name, mode) in modes {
        jobs.push((mode, rig.create(with(noop(draft(name, every(1_000))), |d| d.catch_up = policy(mode))).await));
    }
    rig.pass(2_100).await;
    rig.clock.jump(3_600_000);
    rig.pass(3_000).await;
    let expected = seconds(start, rig.now());
    for (mode, job) in jobs {
        rig.until("caught up", || rig.seen().len() > 3_600).await;
        rig.pass(500).await;
        let executions = rig.executions(job.id).await;
        let ran: HashSet<Timestamp> = executions.iter().map(|e| e.fire_at).collect();
        assert_eq!(ran.len(), executions.len());
        let skips = rig.store.list_skips(TENANT, job.id, None, 100).await.unwrap().items;
        for at in &expected {
            let skipped = skips.iter().any(|s| (s.from..=s.to).contains(at));
            assert!(ran.contains(at) || skipped, "{mode:?}: nothing is known of {at}");
        }
        // The first two, the ten seconds of grace, the three after the jump; and what the policy adds.
        let around = 2 + 11 + 3;
        let least = match mode {
            CatchUpMode::None => 0,
            CatchUpMode::Last | CatchUpMode::Coalesced => 1,
            CatchUpMode::LastN(n) => n as usize,
            CatchUpMode::All => 3_580,
        };
        assert!((least + around - 4..=least + around + 25).contains(&ran.len()), "{mode:?}: {}", ran.len());
    }
    let seen = rig.seen();
    assert_eq!(seen.iter().map(|s| s.execution).collect::<HashSet<_>>().len(), seen.len(), "never twice");
    assert!(seen.iter().all(|s| s.at >= s.fire_at), "never early");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_back_fires_nothing_twice_and_nothing_early() {
    let rig = Rig::new().await;
    let start = rig.now();
    let job = rig.create(noop(draft("back", every(1_000)))).await;
    rig.pass(3_100).await;
    rig.clock.jump(-3_600_000);
    rig.pass(2_000).await;
    assert_eq!(rig.seen().len(), 3, "the clock has to catch up first");
    let new = rig.create(noop(draft("new", every(500)))).await;
    rig.pass(1_100).await;
    assert_eq!(rig.executions(new.id).await.iter().filter(|e| e.state == State::Succeeded).count(), 2);
    rig.clock.jump(3_600_000);
    rig.pass(2_000).await;
    let fires: Vec<Timestamp> =
        rig.executions(job.id).await.iter().filter(|e| e.state == State::Succeeded).map(|e| e.fire_at).collect();
    assert_eq!(fires, seconds(start, rig.now()));
    let seen = rig.seen();
    assert_eq!(seen.iter().map(|s| s.execution).collect::<HashSet<_>>().len(), seen.len(), "never twice");
    assert!(seen.iter().all(|s| s.at >= s.fire_at), "never early");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_and_right_again_holds_nothing_up() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(5_000);
    let job = rig.create(noop(draft("waits", Schedule::At { at }))).await;
    // It is durable, and waits for its instant.
    rig.pass(4_850).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Pending);
    rig.clock.jump(-3_600_000);
    rig.pass(1_000).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Pending, "never early");
    rig.clock.jump(3_600_000);
    rig.pass(1_500).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_it_was_and_retries_what_was_running() {
    let rig = Rig::new().await;
    let start = rig.now();
    let ticking = rig.create(noop(draft("ticking", every(1_000)))).await;
    let at = start.saturating_add_ms(2_000);
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    let running = rig.create(with(draft("running", Schedule::At { at }), |d| d.action = hang)).await;
    rig.pass(2_500).await;
    assert_eq!(rig.executions(running.id).await[0].state, State::Running);
    let rig = rig.restart(|_| Outcome::Succeeded { response: None }).await;
    rig.pass(3_000).await;
    let fires: Vec<Timestamp> =
        rig.executions(ticking.id).await.iter().filter(|e| e.state == State::Succeeded).map(|e| e.fire_at).collect();
    assert_eq!(fires, seconds(start, rig.now()));
    let attempts = rig.store.list_attempts(TENANT, rig.executions(running.id).await[0].id).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::WorkerLost));
    assert!(attempts.len() >= 2 && attempts[0].fence < attempts[1].fence);
    assert!(rig.metrics.lost.get() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_a_restart_is_dispatched_by_the_next_owner() {
    let rig = Rig::scripted(|_| failing(true, false)).await;
    let retry = RetryPolicy { initial_delay_ms: 3_000, max_delay_ms: 3_000, ..draft("", every(1)).definition.retry };
    let at = rig.now().saturating_add_ms(1_000);
    let job = rig.create(with(draft("waits", Schedule::At { at }), |d| d.retry = retry)).await;
    rig.pass(1_500).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Retrying);
    let rig = rig.restart(|_| Outcome::Succeeded { response: None }).await;
    // Sooner than anybody looks for what was lost.
    rig.pass(3_500).await;
    assert_eq!(rig.executions(job.id).await[0].state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_hold() {
    let rig = Rig::new().await;
    let mut bounded = noop(draft("bounded", every(1_000)));
    bounded.definition.window.max_fires = Some(3);
    let bounded = rig.create(bounded).await;
    let mut late = noop(draft("late", every(1_000)));
    late.definition.window.starts_at = Some(rig.now().saturating_add_ms(2_000));
    late.definition.window.ends_at = Some(rig.now().saturating_add_ms(4_000));
    let late = rig.create(late).await;
    rig.pass(8_000).await;
    assert_eq!(rig.executions(bounded.id).await.len(), 3);
    let fires: Vec<Timestamp> = rig.executions(late.id).await.iter().map(|e| e.fire_at).collect();
    assert_eq!(fires.len(), 3, "{fires:?}");
    assert!(Some(fires[0]) == late.definition.window.starts_at && Some(fires[2]) == late.definition.window.ends_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn spread_moves_fires_by_a_fixed_distance() {
    let rig = Rig::new().await;
    let job = rig.create(with(noop(draft("spread", every(1_000))), |d| d.spread_ms = 700)).await;
    rig.pass(3_500).await;
    let offsets: HashSet<i64> = rig.executions(job.id).await.iter().map(|e| e.fire_at.millis() % 1_000).collect();
    assert_eq!(offsets, HashSet::from([job.spread_offset_ms() as i64]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schedule_counts_from_the_change() {
    let rig = Rig::new().await;
    let job = rig.create(noop(draft("moved", every(10_000)))).await;
    rig.pass(1_000).await;
    rig.replace(job.id, noop(draft("moved", every(1_000)))).await;
    rig.pass(2_500).await;
    assert_eq!(rig.seen().len(), 2);
    rig.replace(job.id, noop(draft("moved", every(3_600_000)))).await;
    rig.pass(3_000).await;
    assert!(rig.seen().len() <= 3, "at most what was due at the change");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_off_that_ran_does_not_run_again_when_its_definition_changes() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(1_000);
    let job = rig.create(draft("once", Schedule::At { at })).await;
    rig.pass(2_000).await;
    assert_eq!(rig.seen().len(), 1);
    let mut changed = draft("once", Schedule::At { at });
    changed.definition.window.ends_at = Some(at.saturating_add_ms(60_000));
    rig.replace(job.id, with(changed, |d| d.payload = "2".into())).await;
    rig.pass(2_000).await;
    assert_eq!(rig.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_zone_database_moves_the_jobs_whose_next_fire_it_changes() {
    let rig = Rig::new().await;
    let cron = |name: &str| {
        let (zone, expression) = ("Europe/Berlin".into(), "0 9 * * *".into());
        draft(name, Schedule::Cron { expression, zone, dst_gap: DstGap::default(), dst_fold: DstFold::default() })
    };
    let (moved, stays) = (rig.create(cron("moved")).await, rig.create(cron("stays")).await);
    let right = moved.cursor.next_fire_at;
    // As if the rules of an older database had put its next fire an hour later.
    let next_fire_at = right.map(|at| at.saturating_add_ms(3_600_000));
    let cursor = Cursor { next_fire_at, fires_left: None };
    let fences = rig.store.seize_shards(&shard::all().collect::<Vec<_>>(), "an older one").await.unwrap();
    rig.store
        .advance(fences.into(), vec![CursorMove { job: moved.id, version: 1, superseded: false, cursor }])
        .await
        .unwrap();
    let older = ZoneDatabase { version: "an older one".into() };
    rig.store.put_record(older.clone().into(), None).await.unwrap();
    let rig = rig.restart(|_| Outcome::Succeeded { response: None }).await;
    let keys = [JobKey::Id(moved.id), JobKey::Id(stays.id)];
    let jobs: Vec<_> = rig.store.get_jobs(TENANT, &keys).await.unwrap().into_iter().flatten().collect();
    assert_eq!((jobs[0].cursor.next_fire_at, jobs[0].version), (right, 2));
    assert_eq!(jobs[1].version, 1);
    let noted = rig.store.get_record(&ZoneDatabase::key()).await.unwrap().unwrap();
    assert_ne!(noted.record, older.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_that_is_used_up_stays_so_whatever_is_changed() {
    let rig = Rig::new().await;
    let used_up = |payload: &str| {
        let mut draft = noop(draft("used-up", every(1_000)));
        draft.definition.window.max_fires = Some(3);
        with(draft, |d| d.payload = payload.into())
    };
    let job = rig.create(used_up("1")).await;
    rig.pass(6_000).await;
    assert_eq!(rig.seen().len(), 3);
    rig.replace(job.id, used_up("2")).await;
    rig.pass(3_000).await;
    assert_eq!(rig.seen().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_fires_counts_every_instant_once_across_pauses() {
    let rig = Rig::new().await;
    let mut bounded = noop(draft("bounded", every(500)));
    bounded.definition.window.max_fires = Some(10);
    let job = rig.create(bounded).await;
    let key = JobKey::Id(job.id);
    for _ in 0..3 {
        rig.pass(1_100).await;
        rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
        rig.pass(700).await;
        rig.handle.resume(TENANT, &key, Conditions::default()).await.unwrap();
    }
    rig.pass(10_000).await;
    let ran = rig.executions(job.id).await.iter().filter(|e| e.state == State::Succeeded).count();
    assert_eq!(ran, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_an_active_job_just_before_its_instant_loses_nothing() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(3_000);
    let job = rig.create(draft("resumed", Schedule::At { at })).await;
    rig.pass(2_900).await;
    assert_eq!(rig.executions(job.id).await.len(), 1, "made ahead of its instant");
    rig.handle.resume(TENANT, &JobKey::Id(job.id), Conditions::default()).await.unwrap();
    rig.pass(500).await;
    assert_eq!(rig.seen().len(), 1);
    assert_eq!(rig.executions(job.id).await[0].state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_while_paused_is_accounted_for_whatever_is_changed_meanwhile() {
    let rig = Rig::new().await;
    let start = rig.now();
    let job = rig.create(noop(draft("long-pause", every(1_000)))).await;
    let key = JobKey::Id(job.id);
    rig.pass(1_500).await;
    rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
    rig.pass(2_000).await;
    rig.replace(job.id, with(noop(draft("long-pause", every(1_000))), |d| d.payload = "2".into())).await;
    rig.pass(2_000).await;
    rig.handle.pause(TENANT, &key, None, Conditions::default()).await.unwrap();
    rig.pass(2_000).await;
    rig.handle.resume(TENANT, &key, Conditions::default()).await.unwrap();
    rig.pass(1_500).await;
    let ran: HashSet<Timestamp> = rig.executions(job.id).await.iter().map(|e| e.fire_at).collect();
    let skips = rig.store.list_skips(TENANT, job.id, None, 100).await.unwrap().items;
    for at in seconds(start, rig.now()) {
        let skipped = skips.iter().any(|s| (s.from..=s.to).contains(&at));
        assert!(ran.contains(&at) || skipped, "nothing is known of {at}: {skips:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_the_wall_clock_does_not_take_attempts_from_their_runner() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(1_000);
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    let job = rig.create(with(draft("running", Schedule::At { at }), |d| d.action = hang)).await;
    rig.pass(1_500).await;
    rig.clock.jump(3_600_000);
    rig.pass(5_000).await;
    assert_eq!(rig.seen().len(), 1, "one start");
    assert_eq!(rig.executions(job.id).await[0].state, State::Running);
    // Its own time limit, by the monotonic clock, ends it.
    rig.pass(15_000).await;
    let id = rig.executions(job.id).await[0].id;
    let attempts = rig.store.list_attempts(TENANT, id).await.unwrap();
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::TimedOut));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gone_target_of_an_older_version_does_not_pause_the_newer_one() {
    let (answer, wait) = std::sync::mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let rig = Rig::scripted(move |work| {
        if &*work.definition.payload == "1" {
            // The old target answers only after the job was repaired.
            let _ = tokio::task::block_in_place(|| wait.lock().recv());
            return failing(false, true);
        }
        Outcome::Succeeded { response: None }
    })
    .await;
    let job = rig.create(draft("repaired", every(1_000))).await;
    rig.pass(1_100).await;
    rig.until("the attempt runs", || !rig.seen().is_empty()).await;
    rig.replace(job.id, with(draft("repaired", every(1_000)), |d| d.payload = "2".into())).await;
    answer.send(()).unwrap();
    rig.until("it is dead", || rig.metrics.dead.get() == 1).await;
    rig.pass(2_000).await;
    let job = rig.store.get_jobs(TENANT, &[JobKey::Id(job.id)]).await.unwrap().pop().flatten().unwrap();
    assert_eq!((job.state, job.version), (JobState::Active, 2));
    assert!(rig.metrics.succeeded.get() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_goes_on_though_its_job_was_changed_meanwhile() {
    let rig = Rig::scripted(|work| match work.attempt {
        1 => failing(true, false),
        _ => Outcome::Succeeded { response: None },
    })
    .await;
    let at = rig.now().saturating_add_ms(1_000);
    let backoff = Backoff::Fixed;
    let retry = RetryPolicy { backoff, initial_delay_ms: 2_000, max_delay_ms: 2_000, ..RetryPolicy::default() };
    let draft = with(draft("retried", Schedule::At { at }), |d| d.retry = retry);
    let job = rig.create(draft.clone()).await;
    rig.pass(1_500).await;
    // Accepted by a clock that went back before the instant: it was tried already, and goes on.
    rig.clock.jump(-800);
    rig.replace(job.id, with(draft, |d| d.payload = "2".into())).await;
    rig.clock.jump(800);
    rig.pass(3_000).await;
    let execution = rig.executions(job.id).await.pop().unwrap();
    assert_eq!((execution.state, execution.attempt, execution.job_version), (State::Succeeded, 2, 1));
    assert_eq!(rig.seen()[1].payload, "1", "as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_does_not_wait_for_attempts_for_ever_though_all_slots_are_taken() {
    let rig = Rig::new().await;
    let at = rig.now().saturating_add_ms(1_000);
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    for n in 0..100 {
        let name = format!("hanging-{n}");
        rig.create(with(draft(&name, Schedule::At { at }), |d| (d.action, d.timeout_ms) = (hang.clone(), 86_400_000)))
            .await;
    }
    rig.pass(1_500).await;
    rig.until("all slots are taken", || rig.seen().len() == 44).await;
    let clock = rig.clock.clone();
    let ticking = tokio::spawn(async move {
        loop {
            clock.advance(50);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    });
    let rig = rig.restart(|_| Outcome::Succeeded { response: None }).await;
    ticking.abort();
    // What ran is tried again, and what had no slot starts for the first time: nothing is lost, and no attempt came twice.
    rig.pass(3_000).await;
    let seen = rig.seen();
    let starts: HashSet<_> = seen.iter().map(|s| (s.execution, s.attempt)).collect();
    assert_eq!(starts.len(), seen.len());
    assert!(seen.len() > 44, "{}", seen.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn critical_work_starts_though_others_have_all_slots_and_wait_to_begin() {
    let rig = Rig::new().await;
    let hang = ActionSpec { kind: ActionKind::Webhook, config: HANG.into() };
    let hanging = |name: &str, at| {
        with(draft(name, Schedule::At { at }), |d| (d.action, d.timeout_ms) = (hang.clone(), 86_400_000))
    };
    let at = rig.now().saturating_add_ms(1_000);
    for n in 0..100 {
        rig.create(hanging(&format!("hanging-{n}"), at)).await;
    }
    rig.pass(1_500).await;
    rig.until("all slots are taken", || rig.seen().len() == 44).await;
    rig.waiting.store(100_000, Ordering::Relaxed);
    let at = rig.now().saturating_add_ms(1_000);
    let jobs = [("critical", Priority::Critical), ("high", Priority::High)];
    for (name, priority) in jobs {
        rig.create(with(hanging(name, at), |d| d.priority = priority)).await;
    }
    rig.pass(1_500).await;
    rig.until("the critical one has started", || rig.seen().len() > 44).await;
    assert_eq!(rig.seen().len(), 45, "the other one waits");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_more_is_claimed_while_too_many_wait_to_begin() {
    let rig = Rig::new().await;
    rig.waiting.store(100_000, Ordering::Relaxed);
    let mut jobs = Vec::new();
    for n in 0..3 {
        let at = rig.now().saturating_add_ms(1_000 * (n + 1));
        jobs.push(rig.create(draft(&format!("job-{n}"), Schedule::At { at })).await);
    }
    // Who was in line before they waited gets one.
    rig.pass(5_000).await;
    assert_eq!(rig.seen().len(), 1);
    let last = rig.executions(jobs[2].id).await;
    assert_eq!(last[0].state, State::Pending, "it waits where its priority counts");
    rig.waiting.store(0, Ordering::Relaxed);
    rig.pass(1_000).await;
    assert_eq!(rig.seen().len(), 3);
}
