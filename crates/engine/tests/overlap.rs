//! Runs of one job that would overlap, each policy; and missed fires, each policy. On the whole engine.

mod rig;

use campanile_engine::jobs::Conditions;
use campanile_engine::run::pull::Finishing;
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{Execution, Outcome, Reason};
use campanile_model::job::Blackout;
use campanile_model::lifecycle::State;
use campanile_model::overlap::Overlap;
use campanile_model::schedule::Schedule;
use campanile_model::store::{Extended, JobKey};
use campanile_model::{JobId, Timestamp};
use rig::{HANG, Rig, TENANT, draft, every, with, worker_draft};

fn succeeded() -> Outcome {
    Outcome::Succeeded { response: None }
}

async fn job(rig: &Rig, overlap: Overlap) -> JobId {
    rig.create(with(worker_draft("w", Schedule::None), |d| (d.overlap, d.timeout_ms) = (overlap, 600_000))).await.id
}

async fn fire(rig: &Rig, job: JobId) {
    rig.handle.run_now(TENANT, &JobKey::Id(job), None).await.unwrap();
    rig.pass(20).await;
}

async fn states(rig: &Rig, job: JobId) -> Vec<(State, Option<Reason>)> {
    rig.executions(job).await.iter().map(|e| (e.state, e.reason)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn allow_runs_side_by_side() {
    let rig = Rig::new().await;
    let job = job(&rig, Overlap::Allow).await;
    fire(&rig, job).await;
    fire(&rig, job).await;
    assert_eq!(rig.pull("w-1", 10).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_leaves_a_reason_and_runs_the_next_when_it_is_over() {
    let rig = Rig::new().await;
    let job = job(&rig, Overlap::Skip).await;
    fire(&rig, job).await;
    let first = rig.pull_one("w-1").await;
    fire(&rig, job).await;
    assert!(rig.pull("w-1", 10).await.is_empty());
    let skipped = (State::Skipped, Some(Reason::OverlapForbidden));
    assert_eq!(states(&rig, job).await, [(State::Running, None), skipped]);
    rig.finish(&first, succeeded()).await;
    fire(&rig, job).await;
    rig.pull_one("w-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn buffer_one_keeps_one_and_buffer_all_keeps_all_in_order() {
    for (policy, runs) in [(Overlap::BufferOne, 2), (Overlap::BufferAll, 4)] {
        let rig = Rig::new().await;
        let job = job(&rig, policy).await;
        fire(&rig, job).await;
        let mut current = rig.pull_one("w-1").await;
        for _ in 0..3 {
            fire(&rig, job).await;
            assert!(rig.pull("w-2", 10).await.is_empty(), "it waits");
        }
        let waiting = (State::Held, Some(Reason::DependencyWaiting));
        assert!(states(&rig, job).await.contains(&waiting), "{policy:?}");
        let mut order = vec![current.granted.fire_at];
        for _ in 1..runs {
            rig.finish(&current, succeeded()).await;
            current = rig.pull_one("w-2").await;
            assert!(rig.pull("w-3", 10).await.is_empty(), "one at a time");
            order.push(current.granted.fire_at);
        }
        rig.finish(&current, succeeded()).await;
        rig.pass(50).await;
        assert!(rig.pull("w-3", 10).await.is_empty());
        assert!(order.is_sorted());
        let done = states(&rig, job).await.iter().filter(|(state, _)| *state == State::Succeeded).count();
        assert_eq!(done, runs, "{policy:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_other_asks_the_running_one_and_starts_when_it_has_stopped() {
    let rig = Rig::new().await;
    let job = job(&rig, Overlap::CancelOther).await;
    fire(&rig, job).await;
    let first = rig.pull_one("w-1").await;
    fire(&rig, job).await;
    assert!(rig.pull("w-2", 10).await.is_empty(), "not before the other has stopped");
    let beat = campanile_engine::run::pull::Beat {
        execution: first.granted.fence.execution,
        fence: Some(first.granted.fence.fence),
        progress: None,
        logs: Vec::new(),
    };
    let (told, _) = rig.handle.heartbeat(&"w-1".into(), vec![beat]).await.unwrap();
    assert!(matches!(told[0], Extended::Cancel { reason: Some(Reason::OverlapReplaced), .. }), "{told:?}");
    rig.finish(&first, Outcome::Cancelled).await;
    let second = rig.pull_one("w-2").await;
    rig.finish(&second, succeeded()).await;
    let replaced = (State::Cancelled, Some(Reason::OverlapReplaced));
    assert_eq!(states(&rig, job).await, [replaced, (State::Succeeded, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminate_other_ends_the_running_one_at_once() {
    let rig = Rig::new().await;
    let job = job(&rig, Overlap::TerminateOther).await;
    fire(&rig, job).await;
    let first = rig.pull_one("w-1").await;
    fire(&rig, job).await;
    let second = rig.pull_one("w-2").await;
    assert_eq!(rig.finish(&first, succeeded()).await, Finishing::Stale { state: State::Cancelled });
    rig.finish(&second, succeeded()).await;
    let replaced = (State::Cancelled, Some(Reason::OverlapReplaced));
    assert_eq!(states(&rig, job).await, [replaced, (State::Succeeded, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_terminated_stops_running_here() {
    let rig = Rig::new().await;
    let hang =
        campanile_model::action::ActionSpec { kind: campanile_model::action::ActionKind::Webhook, config: HANG.into() };
    let overlap = Overlap::TerminateOther;
    let job = rig
        .create(with(draft("hang", every(1_000)), |d| (d.overlap, d.action, d.timeout_ms) = (overlap, hang, 60_000)))
        .await;
    rig.pass(4_100).await;
    let running = rig.executions(job.id).await.iter().filter(|e| e.state == State::Running).count();
    assert_eq!(running, 1);
    assert_eq!(rig.handle.status().await.unwrap().running, 1, "the others hold no slot");
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_fires_are_coalesced_into_one_that_knows_since_when() {
    let rig = Rig::new().await;
    let catch_up = CatchUp { mode: CatchUpMode::Coalesced, ..CatchUp::default() };
    let start = rig.now();
    let job = rig.create(with(draft("c", every(60_000)), |d| d.catch_up = catch_up)).await;
    rig.clock.advance(3_600_000);
    rig.pass(1_000).await;
    let executions = rig.executions(job.id).await;
    let first = executions.first().unwrap();
    assert_eq!(first.covers_from, Some(start.saturating_add_ms(60_000)));
    let skips = rig.store.list_skips(TENANT, job.id, None, 10).await.unwrap().items;
    assert!(skips.iter().any(|skip| skip.reason == Reason::MisfireCoalesced));
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_fires_drip_one_by_one() {
    let rig = Rig::new().await;
    let catch_up = CatchUp { mode: CatchUpMode::All, drip_ms: 2_000, ..CatchUp::default() };
    let job = rig.create(with(draft("d", every(600_000)), |d| d.catch_up = catch_up)).await;
    rig.clock.advance(3 * 3_600_000);
    rig.pass(7_000).await;
    let executions = rig.executions(job.id).await;
    assert_eq!(executions.len(), 18, "all are there, so that nothing waits behind them");
    let missed = |e: &&Execution| rig.now().ms_since(e.fire_at) > 60_000;
    let starts: Vec<Timestamp> = executions.iter().filter(missed).filter_map(|e| e.started_at).collect();
    assert!((3..=5).contains(&starts.len()), "{} of 17 in 7 s", starts.len());
    assert!(starts.windows(2).all(|w| w[1].ms_since(w[0]) >= 1_700), "{starts:?}");
    rig.pass(40_000).await;
    assert!(rig.executions(job.id).await.iter().all(|e| e.state == State::Succeeded), "and none is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drip_slower_than_the_schedule_does_not_hold_it_up() {
    let rig = Rig::new().await;
    let catch_up = CatchUp { mode: CatchUpMode::LastN(5), drip_ms: 15_000, ..CatchUp::default() };
    let job = rig.create(with(draft("slow", every(5_000)), |d| d.catch_up = catch_up)).await;
    rig.clock.advance(60_000);
    rig.pass(1_000).await;
    let back = rig.now();
    rig.pass(40_000).await;
    let after: Vec<Execution> = rig.executions(job.id).await.into_iter().filter(|e| e.fire_at > back).collect();
    assert!(after.len() >= 8, "{} in 40 s", after.len());
    let late = after.iter().filter(|e| e.started_at.is_some_and(|at| at.ms_since(e.fire_at) > 500)).count();
    assert_eq!(late, 0, "what comes due after the outage is on time");
    let skips = rig.store.list_skips(TENANT, job.id, None, 100).await.unwrap().items;
    assert!(skips.iter().all(|skip| skip.to < back), "and none of it is skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_by_itself_and_fires_go_on_from_its_end() {
    let rig = Rig::new().await;
    let job = rig.create(draft("p", every(1_000))).await;
    rig.pass(2_100).await;
    let until = rig.now().saturating_add_ms(5_000);
    let key = JobKey::Id(job.id);
    rig.handle.pause(TENANT, &key, Some(until), Conditions::default()).await.unwrap();
    let past = rig.handle.pause(TENANT, &key, Some(rig.now()), Conditions::default()).await.unwrap_err();
    assert_eq!(past.fields()[0].code, "until_in_the_past");
    rig.pass(4_000).await;
    let before = rig.executions(job.id).await.len();
    rig.pass(5_000).await;
    let after: Vec<Timestamp> =
        rig.executions(job.id).await.iter().filter(|e| e.state == State::Succeeded).map(|e| e.fire_at).collect();
    assert!(after.len() >= before + 3, "it goes on");
    let paused = |at: &&Timestamp| **at > until.saturating_add_ms(-5_000) && **at <= until;
    assert_eq!(after.iter().filter(paused).count(), 0, "none of the pause");
    assert!(after.contains(&Timestamp::from_millis((until.millis() / 1_000 + 1) * 1_000)), "the first after its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blackout_skips_with_its_reason() {
    let rig = Rig::new().await;
    let (from, to) = (rig.now().saturating_add_ms(1_500), rig.now().saturating_add_ms(3_500));
    let job = rig.create(with(draft("b", every(1_000)), |d| d.blackouts = [Blackout { from, to }].into())).await;
    rig.pass(5_100).await;
    let ran = rig.executions(job.id).await.iter().filter(|e| e.state == State::Succeeded).count();
    assert_eq!(ran, 3);
    let skips = rig.store.list_skips(TENANT, job.id, None, 10).await.unwrap().items;
    let blackout: Vec<_> = skips.iter().filter(|skip| skip.reason == Reason::Blackout).collect();
    assert_eq!(blackout.len(), 1, "one row, however many fires");
    assert_eq!((blackout[0].from, blackout[0].to), (from, to.saturating_add_ms(-1)));
}
