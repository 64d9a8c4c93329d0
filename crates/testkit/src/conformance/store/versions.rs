//! Versions of jobs, and the instants they govern (`model::job::version`).

use super::{DUE, Fixture, batch};
use crate::generate as g;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::job::{Cursor, Job};
use campanile_model::lifecycle::{Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::schedule::Schedule;
use campanile_model::store::{
    Applied, ChangeSeq, Claim, Claimed, Completion, CursorMove, DueQuery, FireVerdict, Fired, JobKey, JobQuery,
    PlannedJob, Put, RunningQuery, Skip, Waiting,
};
use campanile_model::{ExecutionId, TenantId, Timestamp};
use std::sync::Arc;

const TENANT: TenantId = TenantId::DEFAULT;

fn after_due(ms: i64) -> Timestamp {
    DUE.saturating_add_ms(ms)
}

/// What superseded versions of all jobs owe: which version, from when, until when.
async fn owed(store: &Fixture) -> Vec<(u32, Timestamp, Timestamp)> {
    let query = DueQuery { shards: Vec::new(), before: Timestamp::MAX, after: None, limit: 1_000 };
    let due = store.load_due(&query).await.unwrap();
    assert!(due.is_sorted_by_key(|job| (job.cursor.next_fire_at, job.id)));
    let owed = |job: &PlannedJob| Some((job.version, job.cursor.next_fire_at?, job.ended_at?));
    due.iter().filter_map(owed).collect()
}

/// The instant is the store's, and never before that of the version before.
pub async fn a_change_counts_from_the_instant_of_the_store(store: Fixture) {
    let job = store.job(1).await;
    assert_eq!((job.created_at, job.effective_at), (g::START, g::START));
    let second = store.change(&job, g::at(5_000), g::define(&job, |d| d.timeout_ms = 1)).await;
    assert_eq!((second.version, second.created_at, second.effective_at), (2, g::START, g::at(5_000)));
    // The clock went back.
    let third = store.change(&second, g::at(4_000), g::Change::Pause(None)).await;
    assert_eq!((third.version, third.effective_at), (3, g::at(5_000)));
    assert_eq!(store.get_job(job.id).await, Some(third));
}

/// Newest first, each with the last instant that it governs.
pub async fn versions_are_kept_and_listed(store: Fixture) {
    let first = store.job(1).await;
    let second = store.change(&first, g::at(1_000), g::define(&first, |d| d.payload = "[2]".into())).await;
    let third = store.change(&second, g::at(2_000), g::Change::Pause(Some(g::at(9_000)))).await;
    let fourth = store.change(&third, g::at(3_000), g::Change::Delete).await;
    let list = async |tenant, before, limit| store.list_versions(tenant, first.id, before, limit).await.unwrap();
    let all = list(TENANT, None, 10).await;
    let shown: Vec<(Job, Option<Timestamp>)> = all.items.into_iter().map(|v| (v.job, v.ended_at)).collect();
    let without_cursor = |job: &Job| {
        let cursor = Cursor { next_fire_at: None, ..job.cursor };
        Job { cursor, ..job.clone() }
    };
    let expected = [
        (fourth.clone(), None),
        (third.clone(), Some(g::at(3_000))),
        (without_cursor(&second), Some(g::at(2_000))),
        (without_cursor(&first), Some(g::at(1_000))),
    ];
    assert_eq!((shown.as_slice(), all.has_more), (&expected[..], false));
    let page = list(TENANT, Some(4), 2).await;
    assert_eq!(page.items.iter().map(|v| v.job.version).collect::<Vec<_>>(), [3, 2]);
    assert!(page.has_more);
    assert_eq!(list(TENANT, Some(2), 5).await.items.len(), 1);
    assert!(list(TenantId(2), None, 10).await.items.is_empty(), "not another tenant's");
}

/// Rule 3: what was due before a change stays with the version that governed it, and is found by whoever owns the shard.
pub async fn an_older_version_stays_due_for_what_it_owes(store: Fixture) {
    let job = store.job(1).await;
    let since = store.load_changed(ChangeSeq::default(), 0).await.unwrap().upto;
    let later = after_due(500_000);
    let second = store.change(&job, later, g::define(&job, |d| d.payload = "2".into())).await;
    assert_eq!(second.cursor.next_fire_at, Some(after_due(540_000)));
    assert_eq!(owed(&store).await, [(1, DUE, later)]);
    let changes = store.load_changed(since, 10).await.unwrap();
    let seen: Vec<_> = changes.jobs.iter().map(|job| (job.version, job.ended_at)).collect();
    assert_eq!((seen, changes.count), (vec![(1, Some(later)), (2, None)], 1));
    // Its cursor moves forward like any other, and in the end nothing is owed.
    let fences = store.open_all().await;
    let advance = async |superseded, next: Option<i64>| {
        let cursor = Cursor { next_fire_at: next.map(after_due), fires_left: None };
        store.advance(fences.clone(), vec![CursorMove { job: job.id, version: 1, superseded, cursor }]).await.unwrap();
    };
    advance(true, Some(60_000)).await;
    advance(true, Some(0)).await;
    assert_eq!(owed(&store).await, [(1, after_due(60_000), later)]);
    assert_eq!(store.get_job(job.id).await, Some(second), "that of the newest version is another one");
    // Who does not know yet that it was superseded moves it too, but not beyond its end: what he decided there was not its own.
    advance(false, Some(120_000)).await;
    assert_eq!(owed(&store).await, [(1, after_due(120_000), later)]);
    advance(false, Some(540_000)).await;
    advance(false, None).await;
    assert_eq!(owed(&store).await, [(1, after_due(120_000), later)]);
    advance(true, None).await;
    assert_eq!(owed(&store).await, []);
}

/// Rule 7: a deletion takes away, and says so.
pub async fn a_deletion_takes_away_what_older_versions_owe(store: Fixture) {
    let job = store.job(1).await;
    let second = store.change(&job, after_due(500_000), g::define(&job, |d| d.payload = "2".into())).await;
    let since = store.load_changed(ChangeSeq::default(), 0).await.unwrap().upto;
    store.change(&second, after_due(600_000), g::Change::Delete).await;
    assert_eq!(owed(&store).await, []);
    assert_eq!(store.load_changed(since, 10).await.unwrap().jobs.len(), 1);
    let (from, to, at) = (DUE, after_due(600_000), after_due(600_000));
    let skip = Skip { tenant: TENANT, job: job.id, from, to, reason: Reason::JobDeleted, recorded_at: at };
    assert_eq!(store.list_skips(TENANT, job.id, None, 10).await.unwrap().items, [skip]);
}

/// Rules 1 and 2: who pauses (or reschedules) before an instant governs it, whatever follows before somebody starts it.
pub async fn an_instant_is_governed_by_the_version_in_force_at_it(store: Fixture) {
    // A pause 116 ms before the instant, and a resume 1.5 s after it.
    let (job, id) = store.pending(1).await;
    let paused = store.change(&job, after_due(-116), g::Change::Pause(None)).await;
    store.change(&paused, after_due(1_500), g::Change::Resume).await;
    assert_eq!(store.claimed(id, 0, after_due(2_000)).await, Claimed::Discarded(Reason::Paused));
    // Another schedule before it, and another payload after it.
    let (job, id) = store.pending(2).await;
    let hourly = Schedule::Every { every_ms: 3_600_000, phase_ms: 0 };
    let rescheduled = store.change(&job, after_due(-116), g::define(&job, |d| d.schedule = hourly)).await;
    store.change(&rescheduled, after_due(1_500), g::define(&rescheduled, |d| d.payload = "2".into())).await;
    assert_eq!(store.claimed(id, 0, after_due(2_000)).await, Claimed::Discarded(Reason::StaleVersion));
    // What the version in force has taken over runs as that version says.
    let (job, id) = store.pending(3).await;
    let second = store.change(&job, after_due(-116), g::define(&job, |d| d.payload = "2".into())).await;
    assert_eq!(store.fired(vec![g::fire(&second, DUE)]).await, [Fired::New]);
    store.change(&second, after_due(1_500), g::Change::Pause(None)).await;
    let granted = store.granted(id, 0, after_due(2_000)).await;
    assert_eq!((granted.job_version, &*granted.definition.payload), (2, "2"));
    // The same in one write.
    let (job, id) = store.pending(4).await;
    let paused = store.change(&job, after_due(-116), g::Change::Pause(None)).await;
    store.change(&paused, after_due(1_500), g::Change::Resume).await;
    store.complete(vec![g::complete_unclaimed(g::claim(id, 0, after_due(2_000)))]).await.unwrap();
    assert_eq!(store.execution(id).await.reason, Some(Reason::Paused));
}

/// Rule 4: who was sent for what an older version says (a worker of another handler, or nobody at all) does not get it.
pub async fn what_another_version_took_over_is_not_claimed_for_the_older_one(store: Fixture) {
    let (job, id) = store.pending(1).await;
    let second = store.change(&job, after_due(-116), g::define(&job, |d| d.payload = "2".into())).await;
    assert_eq!(store.fired(vec![g::fire(&second, DUE)]).await, [Fired::New]);
    let state = store.execution(id).await.state;
    // Whoever was sent for the newer one may have been turned away because of this one: it is sent for again.
    let again =
        |ready: &[Waiting]| ready.iter().map(|w| (w.dispatch.execution, w.dispatch.job_version)).collect::<Vec<_>>();
    let older = Claim { job_version: 1, ..g::claim(id, 0, DUE) };
    let claimed = store.claim(vec![older.clone()]).await.unwrap();
    assert_eq!((claimed.verdicts, again(&claimed.ready)), (vec![Claimed::Stale { state }], vec![(id, 2)]));
    let completed = store.complete(vec![g::complete_unclaimed(older.clone())]).await.unwrap();
    assert_eq!((completed.verdicts, again(&completed.ready)), (vec![Applied::Stale { state }], vec![(id, 2)]));
    assert_eq!(store.granted(id, 0, DUE).await.job_version, 2);
    let claimed = store.claim(vec![older]).await.unwrap();
    assert_eq!((claimed.verdicts, claimed.ready), (vec![Claimed::Stale { state: State::Running }], vec![]));
}

/// A claim of a no-op that has seen the changes of jobs up to `as_of`.
fn unclaimed(id: ExecutionId, as_of: ChangeSeq) -> Completion {
    g::complete_unclaimed(Claim { as_of, ..g::claim(id, 0, DUE) })
}

/// Up to where changes of jobs can be seen.
async fn seen(store: &Fixture) -> ChangeSeq {
    store.load_changed(ChangeSeq::default(), 0).await.unwrap().upto
}

/// Whoever fired it did not see what has changed since, of this job or another.
pub async fn who_fired_before_a_change_is_looked_up(store: Fixture) {
    let changes = [(g::Change::Delete, Reason::JobDeleted), (g::Change::Pause(None), Reason::Paused)];
    for (n, (change, reason)) in (1..).zip(changes) {
        let (job, id) = store.pending(n).await;
        let as_of = seen(&store).await;
        store.change(&job, after_due(-1), change).await;
        let verdict = store.completed(unclaimed(id, as_of)).await;
        assert_eq!(verdict, Applied::Stale { state: State::Skipped });
        assert_eq!(store.execution(id).await.reason, Some(reason));
    }
    let (_, fine) = store.pending(10).await;
    let as_of = seen(&store).await;
    let (other, _) = store.pending(11).await;
    store.change(&other, after_due(-1), g::Change::Delete).await;
    assert_eq!(store.completed(unclaimed(fine, as_of)).await, Applied::Done, "another job is gone");
    let (_, unknown) = store.pending(12).await;
    assert_eq!(store.completed(unclaimed(unknown, ChangeSeq::default())).await, Applied::Done);
}

/// Whoever has seen the last change of a job need not be looked up: not even what is wrong is found then. New jobs are no change.
pub async fn who_has_seen_all_changes_is_believed(store: Fixture) {
    let (job, id) = store.pending(1).await;
    store.change(&job, after_due(-1), g::Change::Delete).await;
    // A change of the same batch that came to nothing is not the last one: nobody could see it.
    let (paused, gone) = (store.job(2).await, g::job(3));
    let pause = |job: &Job| g::change(job, g::Change::Pause(None));
    let puts = store.put_jobs(vec![pause(&paused), pause(&gone)]).await.unwrap();
    assert!(matches!(*puts, [Put::Done(_), Put::Gone]), "{puts:?}");
    let as_of = store.load_changed(ChangeSeq::default(), 100).await.unwrap().upto;
    store.job(4).await;
    assert!(seen(&store).await > as_of);
    assert_eq!(store.completed(unclaimed(id, as_of)).await, Applied::Done);
}

/// Rule 3, many changes later.
pub async fn an_instant_before_the_changes_runs_as_it_was(store: Fixture) {
    let (mut job, id) = store.pending(1).await;
    for n in 0..5 {
        let change = match n {
            1 => g::Change::Pause(None),
            2 => g::Change::Resume,
            _ => g::define(&job, |d| d.payload = format!("[{n}]").into()),
        };
        job = store.change(&job, after_due(n * 1_000), change).await;
    }
    let granted = store.granted(id, 0, after_due(9_000)).await;
    assert_eq!((granted.job_version, &*granted.definition.payload), (1, "null"));
}

/// Rule 4: action, payload, policies; in retries; and for whoever ends or prolongs the attempt.
pub async fn an_execution_runs_under_its_own_version_in_whole(store: Fixture) {
    let job = g::job_with(1, |d| {
        d.action = ActionSpec { kind: ActionKind::Worker, config: r#"{"handler":"old"}"#.into() };
        (d.payload, d.timeout_ms, d.retry.max_attempts) = ("\"old\"".into(), 5_000, 7);
    });
    let job = store.create(&Job { target: "old".into(), ..job }).await;
    let id = g::fire(&job, DUE).dispatch.execution;
    store.fired(vec![g::fire(&job, DUE)]).await;
    let mut other = (*job.definition).clone();
    other.action = ActionSpec { kind: ActionKind::Worker, config: r#"{"handler":"new"}"#.into() };
    (other.payload, other.timeout_ms, other.retry.max_attempts) = ("\"new\"".into(), 50_000, 1);
    store.change(&job, after_due(1_000), g::Change::Define(g::resolved(other, "new"))).await;
    for attempt in 0..2 {
        let now = after_due(2_000 + 10_000 * i64::from(attempt));
        let granted = store.granted(id, attempt, now).await;
        assert_eq!((granted.job_version, &granted.definition, granted.timeout_ms), (1, &job.definition, 5_000));
        let running = store.load_running(&RunningQuery::Of(vec![id])).await.unwrap().remove(0);
        assert_eq!((running.dispatch.job_version, running.retry), (1, job.definition.retry));
        assert_eq!((running.timeout_ms, &*running.dispatch.target), (5_000, "old"));
        // No heartbeat prolongs it beyond its own time limit.
        let beat = g::extension(granted.fence, now.saturating_add_ms(6_000), Timestamp::MAX);
        assert!(!matches!(
            store.extend(vec![beat]).await.unwrap()[0],
            campanile_model::store::Extended::Until(until) if until == Timestamp::MAX
        ));
        let failed = g::complete(&granted, Event::FailRetryable, AttemptOutcome::Failed, now);
        store.completed(failed).await;
    }
    assert_eq!(store.execution(id).await.job_version, 1);
}

/// Rule 4: also when it was held behind an earlier run while its job changed.
pub async fn a_held_execution_keeps_its_version(store: Fixture) {
    let job = store.create(&g::job_with(1, |d| d.overlap = Overlap::BufferAll)).await;
    let fires = [g::fire(&job, DUE), g::fire(&job, after_due(1))];
    let [first, second] = fires.clone().map(|fire| fire.dispatch.execution);
    store.fired(fires.to_vec()).await;
    let running = store.granted(first, 0, after_due(1)).await;
    assert_eq!(store.claimed(second, 0, after_due(1)).await, Claimed::Held { by: first, cancel: false });
    let newer = store.change(&job, after_due(100), g::define(&job, |d| d.payload = "2".into())).await;
    store.change(&newer, after_due(200), g::Change::Pause(None)).await;
    let done = g::complete(&running, Event::Succeed, AttemptOutcome::Succeeded, after_due(300));
    let ready = store.complete(vec![done]).await.unwrap().ready;
    assert_eq!(ready.iter().map(|w| w.dispatch.execution).collect::<Vec<_>>(), [second]);
    let granted = store.granted(second, 0, after_due(300)).await;
    assert_eq!((granted.job_version, &*granted.definition.payload), (1, "null"));
}

/// Rule 5: a start that came before the change stands, and the newer version does not fire that instant again.
pub async fn what_has_started_stays_with_its_version(store: Fixture) {
    let (job, id) = store.pending(1).await;
    // The clock of the runner was ahead of the store's.
    let granted = store.granted(id, 0, DUE).await;
    let second = store.change(&job, after_due(-500), g::define(&job, |d| d.payload = "2".into())).await;
    assert_eq!(store.fired(vec![g::fire(&second, DUE)]).await, [Fired::Exists]);
    assert_eq!(store.execution(id).await.job_version, 1);
    let done = g::complete(&granted, Event::Succeed, AttemptOutcome::Succeeded, DUE);
    store.completed(done).await;
    assert_eq!(store.execution(id).await.state, State::Succeeded);
}

/// A pause that ends by itself, and somebody notices late: what came due since then is owed by nobody else.
pub async fn a_pause_ends_when_it_was_to_end(store: Fixture) {
    let job = store.job(1).await;
    let until = after_due(90_000);
    let paused = store.change(&job, g::at(1_000), g::Change::Pause(Some(until))).await;
    let over = JobQuery { pause_ends_by: Some(after_due(400_000)), limit: 10, ..JobQuery::default() };
    assert_eq!(store.list_jobs(&over).await.unwrap().items, std::slice::from_ref(&paused));
    let resumed = store.change(&paused, after_due(400_000), g::Change::Resume).await;
    assert_eq!((resumed.version, resumed.effective_at), (3, until));
    assert_eq!(resumed.cursor.next_fire_at, Some(after_due(120_000)));
    let skips = store.list_skips(TENANT, job.id, None, 10).await.unwrap().items;
    assert_eq!((skips.len(), skips[0].from, skips[0].to), (1, g::at(1_001), until));

    let job = store.job(2).await;
    let paused = store.change(&job, g::at(1_000), g::Change::Pause(Some(until))).await;
    let again = store.change(&paused, after_due(400_000), g::Change::Pause(None)).await;
    assert_eq!(again.version, 4);
    assert_eq!(owed(&store).await, [(3, after_due(120_000), after_due(400_000))]);
    let versions = store.list_versions(TENANT, job.id, None, 10).await.unwrap().items;
    assert_eq!(versions.iter().map(|v| v.job.version).collect::<Vec<_>>(), [4, 3, 2, 1]);
}

/// A rename is a version too, and frees the name.
pub async fn a_version_keeps_the_name_it_had(store: Fixture) {
    let job = store.job(1).await;
    let renamed = store.change(&job, g::at(1), g::define(&job, |d| d.name = "new".into())).await;
    let found = store.get_jobs(TENANT, &[JobKey::Name(job.name().to_owned()), JobKey::Name("new".into())]).await;
    assert_eq!(found.unwrap(), [None, Some(renamed)]);
    let versions = store.list_versions(TENANT, job.id, Some(2), 1).await.unwrap().items;
    assert_eq!(versions[0].job.name(), job.name());
}

/// Rule 7: a backfill and a run by hand record the version they were asked under, and run by it.
pub async fn what_somebody_asked_for_runs_under_the_version_it_was_asked_under(store: Fixture) {
    let job = store.job(1).await;
    let second = store.change(&job, g::at(1_000), g::define(&job, |d| d.payload = "2".into())).await;
    let manual = g::manual_fire(&second, DUE, "x");
    let id: ExecutionId = manual.dispatch.execution;
    let verdict = store.fire(batch(Arc::new([]), vec![manual])).await.unwrap();
    assert!(matches!(verdict, FireVerdict::Fired(_)));
    store.change(&second, g::at(2_000), g::define(&second, |d| d.payload = "3".into())).await;
    let granted = store.granted(id, 0, DUE).await;
    assert_eq!((granted.job_version, &*granted.definition.payload), (2, "2"));
}

/// Rule 6: an owner that begins at a cursor which lags skips a range in which something has run; what is shown leaves that out.
pub async fn a_skip_never_covers_what_ran(store: Fixture) {
    let job = store.job(1).await;
    let fires = [0, 60_000, 120_000].map(|ms| g::fire(&job, after_due(ms)));
    let [ran, pending, running] = fires.clone().map(|fire| fire.dispatch.execution);
    store.fired(fires.to_vec()).await;
    store.completed(g::complete_unclaimed(g::claim(ran, 0, DUE))).await;
    store.granted(running, 0, after_due(120_000)).await;
    let (from, to) = (after_due(-1_000), after_due(200_000));
    let (reason, recorded_at) = (Reason::MisfireCoalesced, to);
    let skip = |from, to| Skip { tenant: TENANT, job: job.id, from, to, reason, recorded_at };
    store.skipped(&[skip(from, to)]).await;
    let list = async |within, limit| store.list_skips(TENANT, job.id, within, limit).await.unwrap().items;
    let pieces = |cuts: &[i64]| -> Vec<Skip> {
        let starts = cuts.iter().map(|&at| after_due(at + 1)).chain([from]);
        let ends = [to].into_iter().chain(cuts.iter().map(|&at| after_due(at - 1)));
        starts.zip(ends).map(|(from, to)| skip(from, to)).collect()
    };
    let cut = pieces(&[120_000, 60_000, 0]);
    assert_eq!(list(None, 10).await, cut, "what is under way will have run");
    assert_eq!(list(None, 1).await, cut[..1]);
    assert_eq!(list(Some((DUE, DUE)), 1).await, []);
    store.cancel(g::cancel(&[pending], after_due(60_000))).await.unwrap();
    let cut = pieces(&[120_000, 0]);
    assert_eq!(list(None, 10).await, cut, "that one never ran");
    assert_eq!(list(Some((after_due(60_000), after_due(60_000))), 1).await, cut[1..2]);
    // A run by hand is at no instant of the schedule.
    let manual = g::manual_fire(&job, after_due(90_000), "x");
    store.fire(batch(Arc::new([]), vec![manual])).await.unwrap();
    assert_eq!(list(None, 10).await, cut);
}
