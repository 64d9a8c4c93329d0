//! The planner: rows in, fires out, no store and no clock.

use super::*;
use campanile_model::TenantId;
use campanile_model::action::ActionKind;
use campanile_model::catch_up::CatchUp;
use campanile_model::catch_up::CatchUpMode;
use campanile_model::execution::Reason;
use campanile_model::job::{Firing, POOL_SHORT, Priority};
use campanile_model::limits;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;

const MINUTE: i64 = 60_000;
const START: i64 = 1_800_000_000_000;

pub(crate) fn t(ms: i64) -> Timestamp {
    Timestamp::from_millis(START + ms)
}

pub(crate) fn job(n: u8, plan: &str, next: i64) -> PlannedJob {
    let firing = Firing {
        ends_at: None,
        spread_ms: 0,
        priority: Priority::Normal,
        pool: POOL_SHORT.into(),
        action: ActionKind::Noop,
        target: "".into(),
        catch_up: CatchUp::default(),
        overlap: Overlap::Allow,
        expect: Expectation::default(),
        blackouts: Arc::new([]),
    };
    PlannedJob {
        id: JobId::from_bytes([n; 16]),
        tenant: TenantId::DEFAULT,
        version: 1,
        state: JobState::Active,
        ended_at: None,
        cursor: Cursor { next_fire_at: Some(t(next)), fires_left: None },
        plan: plan.into(),
        firing: firing.into(),
    }
}

fn firing(mut job: PlannedJob, change: impl FnOnce(&mut Firing)) -> PlannedJob {
    change(Arc::make_mut(&mut job.firing));
    job
}

/// A planner with a horizon of an hour from `t(0)`.
fn planner(jobs: Vec<PlannedJob>) -> Planner {
    let mut planner = Planner::new(t(0), ChangeSeq::default());
    planner.extend(t(60 * MINUTE));
    assert_eq!(planner.load(jobs), []);
    planner
}

fn fires(due: &Due) -> Vec<i64> {
    due.fires.iter().map(|f| f.dispatch.fire_at.millis() - START).collect()
}

#[test]
fn fires_everything_up_to_the_asked_instant_and_goes_on() {
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
    assert_eq!(fires(&planner.due(t(999), t(999), 100)), [0; 0]);
    assert_eq!(fires(&planner.due(t(1_000), t(1_000), 100)), [1_000]);
    assert_eq!(fires(&planner.due(t(3_500), t(3_500), 100)), [2_000, 3_000]);
    assert_eq!(fires(&planner.due(t(4_000), t(6_000), 100)), [4_000, 5_000, 6_000], "ahead of their instant");
    assert_eq!(fires(&planner.due(t(6_000), t(6_000), 100)), [0; 0], "never twice");
}

#[test]
fn what_the_newest_version_fires_says_which_changes_were_seen() {
    let older = PlannedJob { ended_at: Some(t(1_500)), ..job(1, "every 1000+0", 1_000) };
    let newest = PlannedJob { version: 2, ..job(1, "every 1000+0", 2_000) };
    let mut planner = planner(vec![older, newest]);
    planner.see(ChangeSeq(7));
    planner.see(ChangeSeq(5));
    let fires = planner.due(t(2_000), t(2_000), 100).fires;
    let seen = |fire: &Fire| (fire.dispatch.job_version, fire.dispatch.as_of);
    assert_eq!(fires.iter().map(seen).collect::<Vec<_>>(), [(1, ChangeSeq(0)), (2, ChangeSeq(7))]);
    assert_eq!(planner.seen(), ChangeSeq(7));
}

#[test]
fn the_cursor_follows_what_is_durable_and_nothing_else() {
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
    let due = planner.due(t(2_000), t(2_000), 100);
    assert_eq!(planner.take_dirty(t(60 * MINUTE), 10), []);
    planner.committed(&due.moves);
    let moves = planner.take_dirty(t(60 * MINUTE), 10);
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].cursor.next_fire_at, Some(t(3_000)));
    planner.unflushed(&moves);
    assert_eq!(planner.take_dirty(t(60 * MINUTE), 10), moves, "a failed flush is tried again");
}

#[test]
fn a_flushed_cursor_never_passes_an_instant_that_has_not_come() {
    let bounded = PlannedJob {
        cursor: Cursor { next_fire_at: Some(t(1_000)), fires_left: Some(4) },
        ..job(1, "every 1000+0", 1_000)
    };
    let mut planner = planner(vec![bounded, job(2, &format!("at {}", START + 2_000), 2_000)]);
    let due = planner.due(t(1_200), t(9_000), 100);
    assert_eq!(due.fires.len(), 5, "all are durable ahead of their instants, and the series has ended");
    planner.committed(&due.moves);
    let mut flush = |ms| -> Vec<(Option<i64>, Option<u32>)> {
        let moves = planner.take_dirty(t(ms), 10);
        planner.flushed(&moves);
        moves.iter().map(|m| (m.cursor.next_fire_at.map(|at| at.millis() - START), m.cursor.fires_left)).collect()
    };
    assert_eq!(flush(1_200), [(Some(2_000), Some(3))]);
    assert_eq!(flush(1_300), [], "nothing moved");
    assert_eq!(flush(2_500), [(Some(3_000), Some(2)), (None, None)]);
    assert_eq!(flush(4_000), [(None, Some(0))]);
    assert_eq!((planner.dirty(), planner.len()), (0, 0));
}

#[test]
fn a_batch_is_bounded_whatever_has_to_be_caught_up() {
    let policy = CatchUp { mode: CatchUpMode::All, max_age_ms: u64::MAX, drip_ms: 0 };
    let jobs = (1..=50).map(|n| firing(job(n, "every 1000+0", 1_000), |f| f.catch_up = policy)).collect();
    let mut planner = planner(jobs);
    let now = t(50 * MINUTE);
    let mut total = 0;
    loop {
        let due = planner.due(now, now, 500);
        assert!(due.fires.len() < 500 + limits::CATCH_UP_FIRES_MAX, "{}", due.fires.len());
        if due.fires.is_empty() {
            break;
        }
        total += due.fires.len();
        planner.committed(&due.moves);
    }
    assert_eq!(total, 50 * 3_000);
}

#[test]
fn what_is_due_now_goes_before_a_stampede_that_is_still_ahead() {
    let many = limits::WRITE_ITEMS_MAX + 1_000;
    let id = |n: usize| JobId::new(t(-MINUTE), 0, n as u64);
    let at = format!("at {}", START + MINUTE);
    let stampede = (0..many).map(|n| PlannedJob { id: id(n), ..job(1, &at, MINUTE) }).collect();
    let mut planner = planner(stampede);
    let first = planner.due(t(0), t(2 * MINUTE), 100);
    assert_eq!(first.fires.len(), 100);
    planner.load(vec![job(2, &format!("at {}", START + 10), 10)]);
    let second = planner.due(t(5), t(2 * MINUTE), 100);
    assert_eq!(second.fires[0].dispatch.fire_at, t(10));
    // And the stampede comes in the order of its ids, across batches.
    let mut ids: Vec<_> = first.fires.iter().chain(&second.fires[1..]).map(|f| f.dispatch.execution).collect();
    while let Some(due) = Some(planner.due(t(5), t(2 * MINUTE), 1_000)).filter(|due| !due.fires.is_empty()) {
        ids.extend(due.fires.iter().map(|f| f.dispatch.execution));
    }
    assert_eq!(ids.len(), many);
    assert!(ids.is_sorted());
}

#[test]
fn what_could_not_be_written_is_planned_again() {
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
    let (first, second) = (planner.due(t(1_000), t(1_000), 100), planner.due(t(2_000), t(2_000), 100));
    planner.undo(&first.moves);
    planner.committed(&second.moves);
    assert_eq!(fires(&planner.due(t(3_000), t(3_000), 100)), [1_000, 2_000, 3_000]);
}

#[test]
fn jobs_leave_memory_when_their_next_fire_is_far_and_their_cursor_is_flushed() {
    let mut planner = planner(vec![job(1, "every 86400000+0", 1_000), job(2, &format!("at {}", START + 2_000), 2_000)]);
    let due = planner.due(t(2_000), t(2_000), 100);
    assert_eq!(fires(&due), [1_000, 2_000]);
    planner.committed(&due.moves);
    assert_eq!(planner.len(), 2);
    let moves = planner.take_dirty(t(60 * MINUTE), 10);
    planner.flushed(&moves);
    assert!(planner.is_empty());
    assert_eq!(moves[1].cursor.next_fire_at, None, "a one-off has no further fire");
}

#[test]
fn a_parked_job_is_armed_when_the_horizon_reaches_it_before_its_cursor_is_flushed() {
    let mut planner = planner(vec![job(1, "every 4000000+0", 1_000)]);
    let due = planner.due(t(1_000), t(1_000), 100);
    planner.committed(&due.moves);
    let next = due.moves[0].next_at;
    let moves = planner.take_dirty(t(60 * MINUTE), 10);
    planner.extend(t(120 * MINUTE));
    planner.flushed(&moves);
    let due = planner.due(next, next, 100);
    assert_eq!(due.fires.len(), 1);
    assert_eq!(due.fires[0].dispatch.fire_at, next);
}

#[test]
fn far_jobs_are_left_to_the_store() {
    let planner = planner(vec![job(1, "every 86400000+0", 61 * MINUTE)]);
    assert!(planner.is_empty());
}

/// What a version owes that ended then, from its stored cursor on.
fn owed(version: u32, next: i64, ended_at: i64) -> PlannedJob {
    PlannedJob { version, ended_at: Some(t(ended_at)), ..job(1, "every 1000+0", next) }
}

fn versions(due: &Due) -> Vec<(u32, i64)> {
    due.fires.iter().map(|f| (f.dispatch.job_version, f.dispatch.fire_at.millis() - START)).collect()
}

#[test]
fn a_newer_version_fires_again_what_was_made_ahead_of_its_instant() {
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
    let due = planner.due(t(1_500), t(4_000), 100);
    assert_eq!(fires(&due), [1_000, 2_000, 3_000, 4_000]);
    // The job is changed at 2,500; the stored cursor of the older version lags at 2,000.
    planner.load(vec![owed(1, 2_000, 2_500), PlannedJob { version: 2, ..job(1, "every 1000+0", 3_000) }]);
    planner.committed(&due.moves);
    assert_eq!(planner.take_dirty(t(60 * MINUTE), 10), [], "what was handed out before does not count");
    let due = planner.due(t(2_600), t(4_000), 100);
    assert_eq!(versions(&due), [(1, 2_000), (2, 3_000), (2, 4_000)]);
    planner.committed(&due.moves);
    let moves = planner.take_dirty(t(2_600), 10);
    let moved: Vec<_> = moves.iter().map(|m| (m.version, m.cursor.next_fire_at)).collect();
    assert_eq!(moved, [(1, None)], "it owes nothing any more, and the instants of the newer one have not come");
    planner.flushed(&moves);
    assert_eq!(planner.len(), 1);
}

#[test]
fn an_older_version_is_caught_up_by_its_own_policy_and_no_further_than_it_governs() {
    let all = CatchUp { mode: CatchUpMode::All, max_age_ms: u64::MAX, drip_ms: 0 };
    let none = CatchUp { mode: CatchUpMode::None, ..all };
    let newer = PlannedJob { version: 2, ..job(1, "every 700+0", 20 * MINUTE) };
    for (policy, ran) in [(all, 599), (none, 0)] {
        let mut planner = planner(Vec::new());
        planner.load(vec![
            firing(owed(1, 1_000, 10 * MINUTE - 1), |f| f.catch_up = policy),
            firing(newer.clone(), |f| f.catch_up = if policy == all { none } else { all }),
        ]);
        let now = t(15 * MINUTE);
        let due = planner.due(now, now, 10_000);
        assert_eq!((due.fires.len(), due.skips.len()), (ran, usize::from(ran == 0)));
        assert!(due.skips.iter().all(|skip| skip.to < t(10 * MINUTE)));
    }
}

#[test]
fn of_a_job_that_was_changed_only_what_is_owed_stays() {
    // It owes nothing: only the newest version comes.
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
    planner.load(vec![PlannedJob { version: 2, ..job(1, "every 1000+0", 5_000) }]);
    assert_eq!(versions(&planner.due(t(5_000), t(5_000), 100)), [(2, 5_000)]);
    // The loader comes by before the change is heard of.
    planner.load(vec![owed(2, 6_000, 6_500)]);
    planner.load(vec![owed(2, 6_000, 6_500), PlannedJob { version: 3, ..job(1, "every 1000+0", 7_000) }]);
    planner.load(vec![PlannedJob { version: 3, ..job(1, "every 1000+0", 7_000) }]);
    assert_eq!(versions(&planner.due(t(7_000), t(7_000), 100)), [(2, 6_000), (3, 7_000)]);
    // A deletion takes away.
    planner.load(vec![owed(3, 8_000, 8_500), PlannedJob { version: 4, ..job(1, "every 1000+0", 9_000) }]);
    let cursor = Cursor { next_fire_at: None, fires_left: None };
    planner.load(vec![PlannedJob { version: 5, state: JobState::Deleted, cursor, ..job(1, "every 1000+0", 1) }]);
    assert!(planner.is_empty());
    assert_eq!(fires(&planner.due(t(20_000), t(20_000), 100)), [0; 0]);
}

#[test]
fn a_cursor_behind_the_end_of_its_version_is_no_fire() {
    let mut planner = planner(vec![owed(1, 3_000, 2_500)]);
    assert!(planner.is_empty());
    assert_eq!(planner.due(t(60_000), t(60_000), 100).moves.len(), 0);
}

#[test]
fn an_older_or_equal_version_changes_nothing() {
    let mut planner = planner(vec![PlannedJob { version: 3, ..job(1, "every 1000+0", 5_000) }]);
    planner.load(vec![PlannedJob { version: 2, ..job(1, "every 10+0", 10) }]);
    planner.load(vec![PlannedJob { version: 3, ..job(1, "every 10+0", 10) }]);
    assert_eq!(fires(&planner.due(t(5_000), t(5_000), 100)), [5_000]);
}

#[test]
fn paused_and_deleted_jobs_stop_at_once() {
    for state in [JobState::Paused, JobState::Deleted] {
        let mut planner = planner(vec![job(1, "every 1000+0", 1_000)]);
        let cursor = Cursor { next_fire_at: None, fires_left: None };
        planner.load(vec![PlannedJob { version: 2, state, cursor, ..job(1, "every 1000+0", 1_000) }]);
        assert!(planner.is_empty());
        assert_eq!(fires(&planner.due(t(5_000), t(5_000), 100)), [0; 0]);
    }
}

#[test]
fn a_long_stop_is_one_skip_and_the_policy_decides_what_runs() {
    let policy = CatchUp { mode: CatchUpMode::Last, max_age_ms: u64::MAX, drip_ms: 0 };
    let mut planner = planner(vec![firing(job(1, "every 1000+0", 1_000), |f| f.catch_up = policy)]);
    let now = 30 * MINUTE;
    let due = planner.due(t(now), t(now), 10_000);
    assert_eq!(due.skips.len(), 1);
    assert_eq!(due.skips[0].reason, Reason::MisfireCoalesced);
    // The last missed one, then those within the grace.
    assert_eq!(fires(&due)[..2], [now - 11_000, now - 10_000]);
    assert_eq!(fires(&due).last(), Some(&now));
}

#[test]
fn max_fires_and_ends_at_end_a_series() {
    let bounded = PlannedJob {
        cursor: Cursor { next_fire_at: Some(t(1_000)), fires_left: Some(2) },
        ..job(1, "every 1000+0", 1_000)
    };
    let ending = firing(job(2, "every 1000+0", 1_000), |f| f.ends_at = Some(t(1_500)));
    let mut planner = planner(vec![bounded, ending]);
    let due = planner.due(t(9_000), t(9_000), 100);
    let of = |n: u8| due.fires.iter().filter(|f| f.dispatch.job == JobId::from_bytes([n; 16])).count();
    assert_eq!((of(1), of(2)), (2, 1));
}

#[test]
fn a_stored_plan_that_cannot_be_read_is_reported_and_harms_nobody_else() {
    let mut planner = Planner::new(t(0), ChangeSeq::default());
    planner.extend(t(60 * MINUTE));
    let broken = planner.load(vec![job(1, "gibberish", 1_000), job(2, "every 1000+0", 1_000)]);
    assert_eq!(broken, [JobId::from_bytes([1; 16])]);
    assert_eq!(planner.len(), 1);
}

#[test]
fn forgotten_shards_fire_no_more() {
    let mut planner = planner(vec![job(1, "every 1000+0", 1_000), job(2, "every 1000+0", 1_000)]);
    planner.forget(&[shard_of(JobId::from_bytes([1; 16]))]);
    assert_eq!(planner.due(t(1_000), t(1_000), 100).fires.len(), 1);
}

#[test]
fn jobs_that_come_and_go_leave_no_trace() {
    let mut planner = planner(Vec::new());
    for version in 1..200_000u32 {
        let changed = PlannedJob { version, ..job(1, &format!("at {}", START + MINUTE), MINUTE) };
        planner.load(vec![changed]);
    }
    assert_eq!(planner.slots.chunks.iter().map(Vec::len).sum::<usize>(), 1);
    assert!(planner.wheel.len() <= STALE_ENTRIES_MIN + 2, "{}", planner.wheel.len());
}

#[test]
fn a_planned_job_is_small() {
    assert!(size_of::<Slot>() <= 96, "{}", size_of::<Slot>());
}
