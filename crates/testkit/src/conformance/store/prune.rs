//! Retention: what is deleted, what is kept, and what goes with it.

use super::lives::{self, Dice, all, pages};
use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::execution::{AttemptError, AttemptOutcome, LogLine, Progress, Reason};
use campanile_model::ids::{EndpointId, FireKind};
use campanile_model::job::{Cursor, Job};
use campanile_model::lifecycle::{Event, State};
use campanile_model::notify::{DeliveryState, Endpoint, EventKind, Tried};
use campanile_model::stats::StatsQuery;
use campanile_model::store::{
    Claim, Completion, CursorMove, DeliveryWrite, ExecutionQuery, Extension, Fire, Keep, Pruned, Retention, Skip,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;

/// Keeps everything but what the rules say.
pub(super) fn retention(states: &[Keep]) -> Retention {
    let kept = u64::MAX;
    Retention { states: states.to_vec(), rollups_ms: kept, deliveries_ms: kept, skips_ms: kept, versions_ms: kept }
}

fn by_age(state: State, age_ms: u64) -> Keep {
    Keep { state, age_ms: Some(age_ms), count: None }
}

fn by_count(state: State, count: u64) -> Keep {
    Keep { state, age_ms: None, count: Some(count) }
}

/// Prunes until there is no more.
async fn prune(store: &Fixture, retention: &Retention, now: Timestamp, limit: usize) -> Pruned {
    let mut all = Pruned::default();
    for round in 0.. {
        assert!(round < 10_000, "it comes to an end");
        let pruned = store.prune(retention, now, limit).await.unwrap();
        assert!(pruned.executions + pruned.others <= limit, "{pruned:?}");
        all.executions += pruned.executions;
        all.others += pruned.others;
        if !pruned.more {
            break;
        }
    }
    all
}

async fn ids(store: &Fixture) -> BTreeSet<ExecutionId> {
    pages(store, all(1_000)).await.into_iter().map(|execution| execution.id).collect()
}

/// Whatever the rules: what is left is what applying them to every execution leaves; and the counters know.
pub async fn what_is_left_is_what_the_rules_leave(store: Fixture) {
    let dice = Dice::new(11);
    let jobs = lives::jobs(&store, 6).await;
    for round in 0..12 {
        let start = g::at(1_000 * dice.below(300) as i64 + round);
        lives::live(&store, &jobs, start, 15, &dice).await;
        let now = g::at(400_000);
        let keeps = State::ALL.map(|state| Keep {
            state,
            age_ms: (dice.below(2) == 0).then(|| 100_000 + dice.below(300_000)),
            count: (dice.below(3) == 0).then(|| dice.below(60)),
        });
        let before = pages(&store, all(1_000)).await;
        let kept = before.iter().filter(|execution| {
            let state = execution.state;
            let keep = keeps.iter().find(|keep| keep.state == state && state.is_final());
            let newer = before.iter().filter(|other| other.state == state && other.id > execution.id).count() as u64;
            // What ran long after its instant is as old as its end.
            let last = execution.fire_at.max(execution.finished_at.unwrap_or(execution.fire_at));
            let young = |age_ms: u64| last >= now.saturating_add_ms(-(age_ms as i64));
            keep.is_none_or(|keep| keep.age_ms.is_none_or(young) && keep.count.is_none_or(|count| newer < count))
        });
        let kept: BTreeSet<ExecutionId> = kept.map(|execution| execution.id).collect();
        let limit = 1 + dice.below(40) as usize;
        let pruned = prune(&store, &retention(&keeps), now, limit).await;
        assert_eq!(ids(&store).await, kept, "round {round}: {keeps:?}");
        assert_eq!(pruned.executions, before.len() - kept.len());
        assert_eq!(lives::counts(&store).await, lives::counted(&store).await);
        assert_eq!(store.reconcile().await.unwrap(), 0);
        for job in &jobs {
            let history = pages(&store, ExecutionQuery { job: Some(job.id), ..all(7) }).await;
            let of_job = before.iter().filter(|execution| execution.job == job.id && kept.contains(&execution.id));
            assert_eq!(history, of_job.cloned().collect::<Vec<_>>());
        }
        let dead = before.iter().filter(|e| e.state == State::Dead && kept.contains(&e.id)).count() as u64;
        let groups = store.dead_groups(TenantId::DEFAULT, 100).await.unwrap();
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), dead);
        assert!(groups.iter().all(|group| group.count > 0));
    }
}

/// Attempts, responses, logs and what an attempt told go with it.
pub async fn everything_goes_with_an_execution(store: Fixture) {
    let jobs = lives::jobs(&store, 1).await;
    let fire = g::fire(&jobs[0], DUE);
    let id = fire.dispatch.execution;
    store.fired(vec![fire]).await;
    let tenant = jobs[0].tenant;
    let first = store.granted(id, 0, DUE).await;
    let told = Extension {
        execution: id,
        fence: Some(first.fence.fence),
        worker: "worker-1".into(),
        now: DUE,
        lease_until: DUE.saturating_add_ms(10),
        progress: Some(Progress { fraction: Some(0.5), message: None, checkpoint: Some("1".into()), at: DUE }),
        logs: vec![LogLine { at: DUE, level: "info".into(), message: "hello".into() }],
    };
    store.extend(vec![told]).await.unwrap();
    let error = Some(AttemptError { kind: "x".into(), message: "y".into() });
    let failed = g::complete(&first, Event::FailRetryable, AttemptOutcome::Failed, DUE);
    store.complete(vec![Completion { error: error.clone(), ..failed.clone() }]).await.unwrap();
    let second = store.granted(id, 1, failed.wake_at).await;
    let dead = g::complete(&second, Event::FailFinal, AttemptOutcome::Failed, failed.wake_at);
    store.complete(vec![Completion { error, ..dead }]).await.unwrap();
    assert_eq!(store.list_attempts(tenant, id).await.unwrap().len(), 2);
    assert_eq!(store.reports(tenant, id, 0, 10).await.unwrap().logs.len(), 1);
    assert!(store.reports(tenant, id, 0, 0).await.unwrap().progress.is_some());
    assert_eq!(store.dead_groups(tenant, 10).await.unwrap().len(), 1);

    let rules = retention(&[by_age(State::Dead, 1_000)]);
    let end = failed.wake_at.saturating_add_ms(1_000);
    assert_eq!(store.prune(&rules, end, 10).await.unwrap(), Pruned::default(), "not yet: it counts from its end");
    let pruned = store.prune(&rules, end.saturating_add_ms(1), 10).await.unwrap();
    assert_eq!(pruned, Pruned { executions: 1, others: 0, more: false });
    assert_eq!(store.get_executions(tenant, &[id]).await.unwrap(), [None]);
    assert_eq!(store.list_attempts(tenant, id).await.unwrap(), []);
    assert_eq!(store.reports(tenant, id, 0, 10).await.unwrap().logs, []);
    assert_eq!(store.reports(tenant, id, 0, 0).await.unwrap().progress, None);
    assert_eq!(store.dead_groups(tenant, 10).await.unwrap(), []);
}

/// A start from the cursor would find the instant without an execution, and run it again.
pub async fn what_the_cursor_has_not_passed_is_kept(store: Fixture) {
    let job = store.job(1).await;
    let (passed, not) = (g::fire(&job, DUE.saturating_add_ms(-1)), g::fire(&job, DUE));
    let both = [passed.dispatch.execution, not.dispatch.execution];
    store.fired(vec![passed, not]).await;
    let done = both.map(|id| g::complete_unclaimed(g::claim(id, 0, DUE)));
    store.complete(done.to_vec()).await.unwrap();
    let rules = retention(&[by_count(State::Succeeded, 0)]);
    assert_eq!(prune(&store, &rules, DUE, 10).await.executions, 1);
    assert_eq!(ids(&store).await, [both[1]].into());
    // Paused before it, it fires no more, and owes nothing.
    store.change(&job, DUE.saturating_add_ms(-1), g::Change::Pause(None)).await;
    assert_eq!(prune(&store, &rules, DUE, 10).await.executions, 1);
    assert_eq!(ids(&store).await, BTreeSet::new());
}

/// What ends long after its instant is found too, although the place was passed before.
pub async fn what_ends_late_is_pruned_as_well(store: Fixture) {
    let jobs = lives::jobs(&store, 3).await;
    let fires: Vec<_> = (0..60).map(|i| g::fire(&jobs[i % 3], g::at(i as i64))).collect();
    store.fired(fires.clone()).await;
    let id = |i: usize| fires[i].dispatch.execution;
    let succeed = async |i: usize| {
        store.complete(vec![g::complete_unclaimed(g::claim(id(i), 0, DUE))]).await.unwrap();
    };
    for i in 10..60 {
        succeed(i).await;
    }
    let rules = retention(&[by_count(State::Succeeded, 20)]);
    assert_eq!(prune(&store, &rules, DUE, 7).await.executions, 30);
    succeed(3).await;
    succeed(5).await;
    assert_eq!(prune(&store, &rules, DUE, 7).await.executions, 2);
    assert!(ids(&store).await.contains(&id(59)) && !ids(&store).await.contains(&id(3)));
    assert_eq!(ids(&store).await.len(), 8 + 20);
}

/// Deliveries that wait are kept, however old; ended ones, rollups and skips go by age.
pub async fn deliveries_rollups_and_skips_go_by_age(store: Fixture) {
    let job = store.job(1).await;
    let endpoint = Endpoint {
        id: EndpointId::new(g::START, 0, 1),
        tenant: job.tenant,
        url: "https://example.com/hook".into(),
        events: vec![EventKind::Succeeded],
        job: None,
        tag: None,
        paused: false,
        created_at: g::START,
    };
    store.put_record(endpoint.clone().into(), None).await.unwrap();
    let fires: Vec<_> = (0..4).map(|i| g::fire(&job, g::at(i))).collect();
    store.fired(fires.clone()).await;
    for (i, fire) in fires.iter().enumerate() {
        let now = DUE.saturating_add_ms(i as i64 * 60_000);
        let done = g::complete_unclaimed(g::claim(fire.dispatch.execution, 0, now));
        store.complete(vec![done]).await.unwrap();
    }
    let later = DUE.saturating_add_ms(1_000_000);
    let waiting = store.load_deliveries(later, &[], 10).await.unwrap();
    let tried = waiting[..3].iter().map(|(delivery, _)| Tried {
        seq: delivery.seq,
        state: DeliveryState::Delivered,
        next_at: later,
        status: Some(200),
        error: None,
    });
    assert_eq!(store.put_deliveries(tried.map(DeliveryWrite::Tried).collect()).await.unwrap(), [true; 3]);
    let skip = |recorded: i64| Skip {
        tenant: job.tenant,
        job: job.id,
        from: g::at(recorded),
        to: g::at(recorded),
        reason: campanile_model::execution::Reason::Blackout,
        recorded_at: g::at(recorded),
    };
    store.skipped(&[skip(60_000), skip(200_000)]).await;

    // Everything from the second minute on is kept.
    let age_ms = later.ms_since(DUE.saturating_add_ms(60_000));
    let rules = Retention {
        states: Vec::new(),
        rollups_ms: age_ms,
        deliveries_ms: age_ms,
        skips_ms: age_ms,
        versions_ms: u64::MAX,
    };
    let pruned = prune(&store, &rules, later, 2).await;
    assert_eq!(pruned, Pruned { executions: 0, others: 3, more: false });
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items, [skip(200_000)]);
    let stats = StatsQuery { tenant: job.tenant, from: g::START, to: later, pool: None, target: None, limit: 100 };
    assert_eq!(store.stats(&stats).await.unwrap().len(), 3);
    let left = store.list_deliveries(job.tenant, endpoint.id, None, 10).await.unwrap().items;
    assert_eq!(left.len(), 3);
    let rules = Retention { states: Vec::new(), rollups_ms: 0, deliveries_ms: 0, skips_ms: 0, versions_ms: u64::MAX };
    prune(&store, &rules, later.saturating_add_ms(DAY_MS as i64), 100).await;
    let left = store.list_deliveries(job.tenant, endpoint.id, None, 10).await.unwrap().items;
    assert_eq!(left.iter().map(|delivery| delivery.state).collect::<Vec<_>>(), [DeliveryState::Waiting]);
    assert_eq!(store.list_skips(job.tenant, job.id, None, 10).await.unwrap().items, []);
    assert_eq!(store.stats(&stats).await.unwrap(), []);
    assert_eq!(ids(&store).await.len(), 4, "without a rule, nothing is deleted");
}

/// Rule 6 of versions: what was pruned ran, and no skip may say that it did not.
pub async fn what_ran_is_cut_out_of_the_skips_around_it(store: Fixture) {
    let jobs = store.jobs(2).await;
    let (ran, skipped, died) = (DUE, DUE.saturating_add_ms(60_000), DUE.saturating_add_ms(120_000));
    for job in &jobs {
        let fires = [ran, skipped, died].map(|at| g::fire(job, at));
        store.fired(fires.to_vec()).await;
        let ids = fires.map(|fire| fire.dispatch.execution);
        store.completed(g::complete_unclaimed(g::claim(ids[0], 0, ran))).await;
        let late = store.granted(ids[2], 0, died).await;
        store.completed(g::complete(&late, Event::FailFinal, AttemptOutcome::Failed, died)).await;
        // The second one was made ahead and never ran: its job was paused before.
        let paused = store.change(job, ran.saturating_add_ms(1), g::Change::Pause(None)).await;
        store.claimed(ids[1], 0, died).await;
        store.change(&paused, died.saturating_add_ms(1), g::Change::Resume).await;
    }
    let skip = |from, to| Skip {
        tenant: jobs[0].tenant,
        job: jobs[0].id,
        from,
        to,
        reason: Reason::MisfireCoalesced,
        recorded_at: died,
    };
    store.skipped(&[skip(g::at(0), died.saturating_add_ms(10))]).await;
    // The cursors pass everything.
    let fences = store.open_all().await;
    let cursor = Cursor { next_fire_at: Some(died.saturating_add_ms(1_000)), fires_left: None };
    let moves = [1, 3].into_iter().flat_map(|version| jobs.iter().map(move |job| (job.id, version)));
    let moves = moves.map(|(job, version)| CursorMove { job, version, superseded: version == 1, cursor });
    store.advance(fences, moves.collect()).await.unwrap();

    let all_states = State::ALL.map(|state| by_count(state, 0));
    assert_eq!(prune(&store, &retention(&all_states), died, 2).await.executions, 6);
    let left = store.list_skips(jobs[0].tenant, jobs[0].id, None, 10).await.unwrap().items;
    let covers = |at: Timestamp| left.iter().any(|skip| skip.from <= at && at <= skip.to);
    assert_eq!([ran, skipped, died].map(covers), [false, true, false], "{left:?}");
    assert!(covers(g::at(0)) && covers(ran.saturating_add_ms(-1)) && covers(ran.saturating_add_ms(1)));
    let other = store.list_skips(jobs[1].tenant, jobs[1].id, None, 10).await.unwrap().items;
    assert_eq!(other.len(), 2, "the pause of the second job, without what ran in it: {other:?}");
}

/// The fires of a job that somebody asked for later, at instants of its schedule, and that have succeeded.
async fn backfilled(store: &Fixture, job: &Job, instants: &[Timestamp], now: Timestamp) {
    for &at in instants {
        let fire = Fire { kind: FireKind::Backfill, wake_at: now, ..g::fire(job, at) };
        let id = fire.dispatch.execution;
        store.fire(batch(Arc::new([]), vec![fire])).await.unwrap();
        let claim = Claim { job_version: job.version, ..g::claim(id, 0, now) };
        store.completed(g::complete_unclaimed(claim)).await;
    }
}

/// Which of these instants a skip of a job covers.
async fn covered(store: &Fixture, job: &Job, instants: &[Timestamp]) -> Vec<bool> {
    let mut covered = Vec::new();
    for &at in instants {
        let exactly = store.list_skips(job.tenant, job.id, Some((at, at)), 1).await.unwrap().items;
        let all = store.list_skips(job.tenant, job.id, None, 100).await.unwrap().items;
        assert_eq!(exactly.is_empty(), !all.iter().any(|skip| skip.from <= at && at <= skip.to));
        covered.push(!exactly.is_empty());
    }
    covered
}

/// Rule 6: what ran for an instant of a pause, and is deleted before the pause ends, is not in the skip that its end writes; however
/// long the pause lasts.
pub async fn what_ran_during_a_pause_is_not_skipped_when_it_ends(store: Fixture) {
    let job = store.job(1).await;
    let paused = store.change(&job, g::at(1_000), g::Change::Pause(None)).await;
    let instants = [DUE, DUE.saturating_add_ms(60_000)];
    backfilled(&store, &paused, &instants[..1], DUE.saturating_add_ms(100_000)).await;
    let all_states = State::ALL.map(|state| by_count(state, 0));
    let rules = Retention { skips_ms: 1_000, ..retention(&all_states) };
    assert_eq!(prune(&store, &rules, DUE.saturating_add_ms(100_000), 10).await.executions, 1);
    let a_year_later = DUE.saturating_add_ms(365 * DAY_MS as i64);
    prune(&store, &rules, a_year_later, 10).await;
    let resumed = store.change(&paused, a_year_later, g::Change::Resume).await;
    assert_eq!(covered(&store, &resumed, &instants).await, [false, true]);
    prune(&store, &rules, a_year_later.saturating_add_ms(500), 10).await;
    assert_eq!(covered(&store, &resumed, &instants).await, [false, true], "as long as the skip is kept");
}

/// Rule 6: an owner that begins in the middle of a blackout records the whole of it once more.
pub async fn a_skip_that_is_written_again_does_not_cover_what_ran(store: Fixture) {
    let job = store.job(1).await;
    let instants = [DUE, DUE.saturating_add_ms(60_000)];
    let (from, to, recorded_at) = (g::at(0), DUE.saturating_add_ms(100_000), DUE);
    let (tenant, reason) = (job.tenant, Reason::Blackout);
    let blackout = Skip { tenant, job: job.id, from, to, reason, recorded_at };
    store.skipped(std::slice::from_ref(&blackout)).await;
    backfilled(&store, &job, &instants[..1], DUE).await;
    let cursor = Cursor { next_fire_at: Some(instants[1]), fires_left: None };
    let passed = CursorMove { job: job.id, version: 1, superseded: false, cursor };
    store.advance(store.open_all().await, vec![passed]).await.unwrap();
    let rules = Retention { skips_ms: 1_000, ..retention(&[by_count(State::Succeeded, 0)]) };
    assert_eq!(prune(&store, &rules, DUE, 10).await.executions, 1);
    assert_eq!(covered(&store, &job, &instants).await, [false, true]);
    let again = Skip { recorded_at: DUE.saturating_add_ms(50_000), ..blackout };
    store.skipped(std::slice::from_ref(&again)).await;
    assert_eq!(covered(&store, &job, &instants).await, [false, true]);
    prune(&store, &rules, DUE.saturating_add_ms(50_000), 10).await;
    store.skipped(&[again]).await;
    assert_eq!(covered(&store, &job, &instants).await, [false, true], "it lasts longer than what is over is kept");
}

/// As long as an execution of them, and longer by their own retention; and not while they owe something.
pub async fn versions_are_kept_as_long_as_their_executions(store: Fixture) {
    let (mut job, id) = store.pending(1).await;
    for n in 1..=4 {
        job = store.change(&job, g::at(59_000 + n), g::define(&job, |d| d.payload = format!("{n}").into())).await;
    }
    // The fifth version owes fires.
    store.change(&job, g::at(600_000), g::Change::Pause(None)).await;
    store.claimed(id, 0, DUE).await;
    let versions = async || {
        let listed = store.list_versions(job.tenant, job.id, None, 10).await.unwrap().items;
        listed.iter().map(|version| version.job.version).collect::<Vec<_>>()
    };
    let keep = |versions_ms| Retention { versions_ms, ..retention(&[by_count(State::Skipped, 0)]) };
    let rules = Retention { states: Vec::new(), ..keep(10_000) };
    assert_eq!(prune(&store, &rules, g::at(69_003), 1).await.others, 1, "one is old enough, and not the first");
    assert_eq!(versions().await, [6, 5, 4, 3, 1], "the first has an execution");
    assert_eq!(prune(&store, &keep(10_000), g::at(700_000), 10).await.executions, 0, "the fifth has not passed it");
    let cursor = Cursor { next_fire_at: Some(g::at(120_000)), fires_left: None };
    store
        .advance(store.open_all().await, vec![CursorMove { job: job.id, version: 5, superseded: false, cursor }])
        .await
        .unwrap();
    assert_eq!(prune(&store, &keep(10_000), g::at(700_000), 10).await.executions, 1);
    prune(&store, &keep(10_000), g::at(700_000), 1).await;
    assert_eq!(versions().await, [6, 5], "the fifth owes something");
}
