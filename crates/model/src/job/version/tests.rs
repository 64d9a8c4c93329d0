//! What a change does to a job and its instants; without a store and without a clock.

use super::*;
use crate::action::{ActionKind, ActionSpec};
use crate::job::Window;
use crate::schedule::HashSeed;

const START: i64 = 1_800_000_000_000;

fn t(ms: i64) -> Timestamp {
    Timestamp::from_millis(START + ms)
}

fn resolved(schedule: Schedule) -> Resolved {
    let plan = schedule.resolve(HashSeed { tenant: "default", job: "a" }, t(0)).unwrap();
    let definition = Definition { name: "a".into(), schedule, ..Definition::default() };
    Resolved { definition: definition.into(), plan, target: "".into(), allow_past: false, kept: false }
}

fn every(every_ms: u64) -> Resolved {
    resolved(Schedule::Every { every_ms, phase_ms: 0 })
}

fn with(mut resolved: Resolved, change: impl FnOnce(&mut Definition)) -> Resolved {
    change(Arc::make_mut(&mut resolved.definition));
    resolved
}

fn created(resolved: &Resolved, at: i64) -> Job {
    create(JobId::from_bytes([1; 16]), TenantId::DEFAULT, resolved, false, t(at))
}

fn changed(old: &Job, by: Change, at: i64) -> Changed {
    change(old, None, &by, t(at))
}

fn next(job: &Job) -> Option<i64> {
    job.cursor.next_fire_at.map(|at| at.millis() - START)
}

/// The job with its stored cursor somewhere else: it lags, or an owner has moved it.
fn at_cursor(job: &Job, ms: i64, fires_left: Option<u32>) -> Job {
    Job { cursor: Cursor { next_fire_at: Some(t(ms)), fires_left }, ..job.clone() }
}

fn skips(made: &Changed) -> Vec<(i64, i64, Reason)> {
    made.skips.iter().map(|skip| (skip.from.millis() - START, skip.to.millis() - START, skip.reason)).collect()
}

#[test]
fn a_new_job_fires_after_its_acceptance_and_a_one_off_also_when_that_took_long() {
    assert_eq!(next(&created(&every(1_000), 500)), Some(1_000));
    assert_eq!(next(&created(&every(1_000), 1_000)), Some(2_000));
    assert_eq!(next(&created(&resolved(Schedule::At { at: t(300) }), 500)), Some(300), "late, and not lost");
    assert_eq!(next(&created(&resolved(Schedule::After { delay_ms: 100 }), 500)), Some(600));
    assert_eq!(next(&created(&resolved(Schedule::After { delay_ms: 0 }), 500)), Some(500));
    let past = Resolved { allow_past: true, ..resolved(Schedule::At { at: t(-9_000) }) };
    assert_eq!(next(&created(&past, 500)), Some(500), "at once");
    let paused = create(JobId::from_bytes([1; 16]), TenantId::DEFAULT, &every(1_000), true, t(0));
    assert_eq!((next(&paused), paused.state), (None, JobState::Paused));
}

#[test]
fn the_older_version_keeps_what_was_due_before_the_change() {
    let job = at_cursor(&created(&every(1_000), 0), 1_000, None);
    let made = changed(&job, Change::Define(every(300)), 5_500);
    assert_eq!((made.job.version, made.job.effective_at, next(&made.job)), (2, t(5_500), Some(5_700)));
    let old = &made.superseded[0];
    assert_eq!((old.job.version, old.ended_at, next(&old.job)), (1, t(5_500), Some(1_000)), "it owes 1,000 to 5,000");
    assert!(made.skips.is_empty());
    let accounted = at_cursor(&job, 6_000, None);
    let made = changed(&accounted, Change::Define(every(300)), 5_500);
    assert_eq!(next(&made.superseded[0].job), None, "it owes nothing");
}

#[test]
fn a_change_counts_from_where_the_one_before_it_counts_should_the_clock_go_back() {
    let job = created(&every(1_000), 5_000);
    let made = changed(&job, Change::Define(every(300)), 4_000);
    assert_eq!((made.job.effective_at, next(&made.job)), (t(5_000), Some(5_100)));
}

#[test]
fn a_cursor_that_has_passed_the_change_comes_back_to_it() {
    // The clock of the owner was ahead by two seconds.
    let job = at_cursor(&created(&every(1_000), 0), 7_000, None);
    let made = changed(&job, Change::Define(with(every(1_000), |d| d.payload = "2".into())), 4_500);
    assert_eq!((next(&made.job), next(&made.superseded[0].job)), (Some(5_000), None));
}

#[test]
fn a_pause_skips_exactly_what_it_governs() {
    let job = at_cursor(&created(&every(1_000), 0), 1_000, None);
    let paused = changed(&job, Change::Pause(None), 3_500);
    assert_eq!((paused.job.state, next(&paused.job)), (JobState::Paused, None));
    assert_eq!(next(&paused.superseded[0].job), Some(1_000), "what was due before the pause still runs");
    assert!(paused.skips.is_empty());
    let resumed = changed(&paused.job, Change::Resume, 7_200);
    assert_eq!(skips(&resumed), [(3_501, 7_200, Reason::Paused)]);
    assert_eq!((resumed.job.version, next(&resumed.job)), (3, Some(8_000)));
    assert_eq!(next(&resumed.superseded[0].job), None);
    let quick = changed(&paused.job, Change::Resume, 3_900);
    assert!(quick.skips.is_empty(), "no fire lies in it");
}

#[test]
fn a_pause_that_ends_by_itself_counts_from_its_end_whenever_somebody_notices() {
    let job = created(&every(1_000), 0);
    let paused = changed(&job, Change::Pause(Some(t(4_000))), 500).job;
    let noticed = changed(&paused, Change::Resume, 9_700);
    assert_eq!((noticed.job.version, noticed.job.effective_at, next(&noticed.job)), (3, t(4_000), Some(5_000)));
    assert_eq!(skips(&noticed), [(501, 4_000, Reason::Paused)]);
    assert_eq!(noticed.superseded[0].ended_at, t(4_000));
    let ahead = changed(&paused, Change::EndPause, 3_990);
    assert_eq!(ahead.job, noticed.job, "whoever noticed it had a clock that was ahead");
    // Somebody pauses again before anybody noticed: what came due in between is owed.
    let again = changed(&paused, Change::Pause(None), 9_700);
    assert_eq!((again.job.version, again.job.state), (4, JobState::Paused));
    let ends: Vec<_> = again.superseded.iter().map(|old| (old.job.version, old.ended_at, next(&old.job))).collect();
    assert_eq!(ends, [(2, t(4_000), None), (3, t(9_700), Some(5_000))]);
    assert_eq!(skips(&again), [(501, 4_000, Reason::Paused)]);
    // Resumed by hand before its end: from then on.
    let early = changed(&paused, Change::Resume, 2_200);
    assert_eq!((early.job.effective_at, next(&early.job)), (t(2_200), Some(3_000)));
}

#[test]
fn a_paused_job_stays_paused_when_it_is_defined_anew() {
    let paused = changed(&created(&every(1_000), 0), Change::Pause(Some(t(60_000))), 500).job;
    let made = changed(&paused, Change::Define(every(300)), 2_500);
    assert_eq!((made.job.state, made.job.paused_until, next(&made.job)), (JobState::Paused, Some(t(60_000)), None));
    assert_eq!(skips(&made), [(501, 2_500, Reason::Paused)]);
}

#[test]
fn a_deletion_takes_away_what_is_owed() {
    let job = at_cursor(&created(&every(1_000), 0), 2_000, None);
    let made = changed(&job, Change::Delete, 3_500);
    assert_eq!((made.job.state, next(&made.job), next(&made.superseded[0].job)), (JobState::Deleted, None, None));
    assert_eq!(skips(&made), [(2_000, 3_500, Reason::JobDeleted)]);
    let older = change(&job, Some(t(700)), &Change::Delete, t(3_500));
    assert_eq!(skips(&older), [(700, 3_500, Reason::JobDeleted)], "also what a version before it owes");
    let nothing = changed(&at_cursor(&job, 4_000, None), Change::Delete, 3_500);
    assert!(nothing.skips.is_empty());
}

#[test]
fn the_instant_of_a_one_off_is_fixed_and_a_new_one_lies_after_the_change() {
    let job = created(&resolved(Schedule::After { delay_ms: 5_000 }), 0);
    let again = with(resolved(Schedule::After { delay_ms: 5_000 }), |d| d.payload = "2".into());
    let made = changed(&job, Change::Define(again.clone()), 3_000);
    assert_eq!(next(&made.job), Some(5_000), "saying the same again does not move it");
    let late = changed(&job, Change::Define(again), 6_000);
    assert_eq!((next(&late.job), next(&late.superseded[0].job)), (None, Some(5_000)), "nor repeat it");
    for schedule in [Schedule::After { delay_ms: 0 }, Schedule::At { at: t(2_000) }] {
        let made = changed(&job, Change::Define(resolved(schedule)), 3_000);
        assert_eq!(next(&made.job), Some(3_001), "the first instant that the new version governs");
    }
    let kept = Resolved { kept: true, ..resolved(Schedule::At { at: t(2_000) }) };
    assert_eq!(next(&changed(&job, Change::Define(kept), 3_000).job), None, "it has passed");
}

#[test]
fn fires_are_counted_across_versions_of_the_same_schedule() {
    let bounded = |payload: &str| {
        with(every(1_000), |d| {
            (d.window, d.payload) = (Window { max_fires: Some(10), ..Window::default() }, payload.into());
        })
    };
    let job = created(&bounded("1"), 0);
    let left = |job: &Job, at| changed(job, Change::Define(bounded("2")), at).job.cursor.fires_left;
    assert_eq!(left(&job, 3_500), Some(7), "three passed that the stored cursor has not counted");
    assert_eq!(left(&at_cursor(&job, 4_000, Some(7)), 3_500), Some(7));
    assert_eq!(left(&at_cursor(&job, 6_000, Some(5)), 3_500), Some(7), "those after the change count again");
    assert_eq!(left(&job, 60_000), Some(0));
    assert_eq!(next(&changed(&job, Change::Define(bounded("2")), 60_000).job), None);
    let paused = changed(&job, Change::Pause(None), 3_500).job;
    assert_eq!(
        changed(&paused, Change::Resume, 60_500).job.cursor,
        Cursor { next_fire_at: Some(t(61_000)), fires_left: Some(7) }
    );
    let other = with(every(500), |d| d.window = job.definition.window);
    assert_eq!(changed(&job, Change::Define(other), 3_500).job.cursor.fires_left, Some(10), "another schedule");
}

#[test]
fn a_plan_that_cannot_be_read_has_no_fires_and_can_be_mended() {
    let broken = Job { plan: "gibberish".into(), ..created(&every(1_000), 0) };
    for by in [Change::Pause(None), Change::Resume, Change::Delete, Change::Replan] {
        let made = changed(&broken, by, 500);
        assert_eq!((next(&made.job), &*made.job.plan), (None, "gibberish"));
    }
    assert_eq!(next(&changed(&broken, Change::Define(every(1_000)), 500).job), Some(1_000));
}

#[test]
fn an_action_and_its_target_change_together() {
    let work = with(every(1_000), |d| d.action = ActionSpec { kind: ActionKind::Worker, config: "{}".into() });
    let work = Resolved { target: "work".into(), ..work };
    let made = changed(&created(&every(1_000), 0), Change::Define(work), 500);
    assert_eq!((&*made.job.target, made.job.firing().action), ("work", ActionKind::Worker));
    assert_eq!((&*made.superseded[0].job.target, made.superseded[0].job.firing().action), ("", ActionKind::Noop));
}

const ACTIVE: JobState = JobState::Active;
const PAUSED: JobState = JobState::Paused;

fn in_force(version: u32, state: JobState, effective_at: i64) -> InForce {
    InForce { version, state, effective_at: t(effective_at) }
}

#[test]
fn an_execution_starts_only_under_the_version_that_governs_its_instant() {
    let fired = FiredUnder { kind: FireKind::Schedule, version: 1, fire_at: t(1_000), tried: false };
    let own = in_force(1, ACTIVE, 0);
    let cases = [
        // Only the newest is asked: it fired it, or it counts since before the instant.
        (in_force(1, ACTIVE, 0), None, None),
        (in_force(2, ACTIVE, 999), None, Some(Reason::StaleVersion)),
        (in_force(2, PAUSED, 999), None, Some(Reason::Paused)),
        // The newest came at or after the instant: the one before it is asked.
        (in_force(2, PAUSED, 1_000), Some(own), None),
        (in_force(3, ACTIVE, 2_500), Some(own), None),
        (in_force(3, ACTIVE, 2_500), Some(in_force(2, PAUSED, 884)), Some(Reason::Paused)),
        (in_force(3, PAUSED, 2_500), Some(in_force(2, ACTIVE, 884)), Some(Reason::StaleVersion)),
        // A deletion takes away.
        (in_force(2, JobState::Deleted, 2_500), None, Some(Reason::JobDeleted)),
    ];
    for (newest, older, reason) in cases {
        let needed = older.is_some();
        assert_eq!(fired.needs_older(&newest), needed, "{newest:?}");
        assert_eq!(discard_reason(&fired, &newest, older.as_ref()), reason, "{newest:?} {older:?}");
    }
    let newest = in_force(2, PAUSED, 500);
    for kept in [FiredUnder { tried: true, ..fired }, FiredUnder { kind: FireKind::Manual, ..fired }] {
        assert_eq!(discard_reason(&kept, &newest, None), None);
        assert!(discard_reason(&kept, &in_force(2, JobState::Deleted, 500), None).is_some());
    }
}

#[test]
fn a_blackout_is_none_before_the_version_that_has_it() {
    let blackout = |from: i64, to: i64| super::super::Blackout { from: t(from), to: t(to) };
    let given = [blackout(-9, 100), blackout(100, 900), blackout(2_000, 3_000)];
    let dark = || with(every(1_000), |d| d.blackouts = given.into());
    assert_eq!(*created(&dark(), 500).firing().blackouts, given, "before the first version nothing ran");
    let second = changed(&created(&every(1_000), 0), Change::Define(dark()), 500).job;
    assert_eq!(*second.firing().blackouts, [blackout(501, 900), blackout(2_000, 3_000)]);
    assert_eq!(*second.definition.blackouts, given, "what the user said stays");
}

#[test]
fn fires_before_the_window_opens_are_not_counted() {
    let window = Window { starts_at: Some(t(100_000)), max_fires: Some(10), ..Window::default() };
    let bounded = |payload: &str| with(every(1_000), |d| (d.window, d.payload) = (window, payload.into()));
    let job = created(&bounded("1"), 0);
    let whole = Cursor { next_fire_at: Some(t(100_000)), fires_left: Some(10) };
    assert_eq!(job.cursor, whole);
    assert_eq!(changed(&job, Change::Define(bounded("2")), 3_500).job.cursor, whole);
    let paused = changed(&job, Change::Pause(None), 3_500).job;
    assert_eq!(changed(&paused, Change::Resume, 9_500).job.cursor, whole);
}

#[test]
fn a_pause_skips_nothing_that_would_not_have_fired() {
    let window = Window { starts_at: Some(t(5_000)), ends_at: Some(t(7_000)), max_fires: None };
    let bounded = with(every(1_000), |d| d.window = window);
    let skipped = |pause: i64, resume: i64| {
        let paused = changed(&created(&bounded, 0), Change::Pause(None), pause).job;
        skips(&changed(&paused, Change::Resume, resume))
    };
    assert_eq!(skipped(1_500, 3_500), [], "it has not begun");
    assert_eq!(skipped(7_500, 9_500), [], "it is over");
    assert_eq!(skipped(1_500, 5_500), [(1_501, 5_500, Reason::Paused)]);
    // Created paused, to fire at once: that instant is passed over, and says so.
    let at_once = resolved(Schedule::After { delay_ms: 0 });
    let paused = create(JobId::from_bytes([1; 16]), TenantId::DEFAULT, &at_once, true, t(500));
    assert_eq!(skips(&changed(&paused, Change::Resume, 2_000)), [(500, 2_000, Reason::Paused)]);
}
