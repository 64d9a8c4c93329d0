//! What happens to fires that were missed: while the process was down, stopped, asleep, or its clock jumped.
//!
//! A fire that is late by at most `limits::MISFIRE_GRACE_MS` is merely late and runs. Older ones are *missed*, and the
//! job's policy decides: some become executions (deduplicated by their ids, should they exist), the rest becomes one
//! recorded skip. The cost does not depend on how much was missed, except under `max_fires`: there the instants are counted, at
//! most as many as it has left.

use crate::execution::Reason;
use crate::fault::{Bug, planted};
use crate::job::{Blackout, Cursor, next_fire};
use crate::limits;
use crate::schedule::Plan;
use crate::time::Timestamp;

/// A job's policy for missed fires.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct CatchUp {
    /// Which of them run.
    pub mode: CatchUpMode,
    /// Those older than this do not.
    pub max_age_ms: u64,
    /// At least this long between the starts of missed fires; 0 for all at once. What comes due meanwhile is on time.
    pub drip_ms: u64,
}

/// Which missed fires run.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum CatchUpMode {
    /// None.
    None,
    #[default]
    Last,
    All,
    LastN(u32),
    /// One, at the instant of the last one, which is told since when it stands for the others.
    Coalesced,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { mode: CatchUpMode::default(), max_age_ms: limits::CATCH_UP_AGE_MS_DEFAULT, drip_ms: 0 }
    }
}

/// The fires of one job from its cursor on: its plan, moved by its spread and cut by its bounds.
#[derive(Copy, Clone, Debug)]
pub struct Series<'a> {
    pub plan: &'a Plan,
    /// By how much its fires are moved.
    pub offset_ms: u64,
    /// None after this.
    pub ends_at: Option<Timestamp>,
    /// No more than this many from the cursor on.
    pub fires_left: Option<u32>,
    /// None in these; they count as fires all the same.
    pub blackouts: &'a [Blackout],
}

/// What to do about a job whose earliest fire without an outcome is due.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// Fires that become executions, earliest first. At most `limits::CATCH_UP_FIRES_MAX`.
    pub fires: Vec<Timestamp>,
    /// Fires in these ranges (both ends included) that have no execution are skipped, for these reasons.
    pub skips: Vec<(Timestamp, Timestamp, Reason)>,
    /// Where the job stands after all of these. The next fire may be due as well, and then needs another decision.
    pub cursor: Cursor,
    /// The first missed fire that the only one in `fires` stands for.
    pub covers_from: Option<Timestamp>,
    /// Whether these were missed, so that they start no closer together than the policy's drip.
    pub missed: bool,
}

/// Decides about the fires of a job from `due` (its earliest fire without an outcome) on, as far as one decision goes.
///
/// `due` must be a fire of the series, at or before `now`.
pub fn decide(policy: CatchUp, series: Series<'_>, due: Timestamp, now: Timestamp) -> Decision {
    let grace_start = now.saturating_add_ms(-(limits::MISFIRE_GRACE_MS as i64));
    if due >= grace_start {
        return Decision { fires: vec![due], cursor: series.after(due, 1), ..Decision::default() };
    }
    // Missed are the fires in [due, last_missed]; later ones are merely late, and come one by one.
    let last_missed = series.last_instant(due, grace_start.saturating_add_ms(-1));
    // kubernetes#42649: more than a hundred missed starts look like an error, and the job never runs again.
    if planted(Bug("hundred-missed")) && series.plan.count(due, last_missed, 101) > 100 {
        return Decision::default();
    }
    let max_age = i64::try_from(policy.max_age_ms).unwrap_or(i64::MAX);
    let oldest = due.max(now.saturating_add_ms(-max_age));
    let keep = match policy.mode {
        CatchUpMode::None => 0,
        CatchUpMode::Last | CatchUpMode::Coalesced => 1,
        CatchUpMode::LastN(n) => (n as usize).min(limits::CATCH_UP_FIRES_MAX),
        CatchUpMode::All => return all(series, due, oldest, last_missed),
    };
    let fires = series.last(keep, oldest, last_missed);
    let (too_old, passed_over) = match policy.mode {
        CatchUpMode::None => (Reason::MisfireDiscarded, Reason::MisfireDiscarded),
        _ => (Reason::Expired, Reason::MisfireCoalesced),
    };
    // Those that are too old are not stood for.
    let first = series.first(oldest, last_missed).filter(|_| policy.mode == CatchUpMode::Coalesced);
    let covers_from = first.filter(|first| fires.first().is_some_and(|only| first < only));
    let skipped_end = fires.first().map_or(last_missed, |first| first.saturating_add_ms(-1));
    let mut skips = Vec::new();
    if due < oldest {
        skips.push((due, skipped_end.min(oldest.saturating_add_ms(-1)), too_old));
    }
    if oldest <= skipped_end {
        skips.push((oldest, skipped_end, passed_over));
    }
    let passed = series.count(due, last_missed);
    let cursor = series.after(last_missed, passed);
    Decision { fires, skips, cursor, covers_from, missed: true }
}

/// Decides about the only fire of a one-off, due at `at`.
pub fn decide_one_off(policy: CatchUp, at: Timestamp, now: Timestamp) -> Decision {
    let late_ms = now.ms_since(at);
    let skip = match policy.mode {
        _ if late_ms <= limits::MISFIRE_GRACE_MS => None,
        CatchUpMode::None => Some(Reason::MisfireDiscarded),
        _ if late_ms > policy.max_age_ms => Some(Reason::Expired),
        _ => None,
    };
    let fires = if skip.is_none() { vec![at] } else { Vec::new() };
    let skips = skip.map(|reason| (at, at, reason)).into_iter().collect();
    Decision { fires, skips, ..Decision::default() }
}

/// `CatchUpMode::All`: every missed fire that is young enough, a bounded number per decision.
fn all(series: Series<'_>, due: Timestamp, oldest: Timestamp, last_missed: Timestamp) -> Decision {
    let mut skips = Vec::new();
    let mut cursor = Cursor { next_fire_at: Some(due), fires_left: series.fires_left };
    if due < oldest {
        let end = last_missed.min(oldest.saturating_add_ms(-1));
        skips.push((due, end, Reason::Expired));
        cursor = series.after(end, series.count(due, end));
    }
    let mut fires = Vec::new();
    while let Some(at) = cursor.next_fire_at.filter(|&at| at <= last_missed && fires.len() < limits::CATCH_UP_FIRES_MAX)
    {
        fires.push(at);
        cursor = Series { fires_left: cursor.fires_left, ..series }.after(at, 1);
    }
    Decision { fires, skips, cursor, covers_from: None, missed: true }
}

impl Series<'_> {
    /// The cursor once `passed` fires up to `at` are accounted for.
    fn after(&self, at: Timestamp, passed: u32) -> Cursor {
        let fires_left = self.fires_left.map(|left| left.saturating_sub(passed));
        let next = next_fire(self.plan, self.offset_ms, at);
        let open = |&next: &Timestamp| fires_left != Some(0) && self.ends_at.is_none_or(|end| next <= end);
        Cursor { next_fire_at: next.filter(open), fires_left }
    }

    /// The last `n` fires in `[from, to]` that no blackout covers.
    fn last(&self, n: usize, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let offset = self.offset_ms as i64;
        let mut fires = Vec::new();
        let mut end = to;
        while fires.len() < n && from <= end {
            // Backwards, from blackout to blackout.
            if let Some(blackout) = self.blackouts.iter().find(|blackout| blackout.from <= end && end < blackout.to) {
                end = blackout.from.saturating_add_ms(-1);
                continue;
            }
            let before = self.blackouts.iter().filter(|blackout| blackout.to <= end).map(|blackout| blackout.to).max();
            let start = before.map_or(from, |before| before.max(from));
            let found =
                self.plan.last(n - fires.len(), start.saturating_add_ms(-1 - offset), end.saturating_add_ms(-offset));
            fires.splice(0..0, found.into_iter().map(|at| at.saturating_add_ms(offset)));
            end = start.saturating_add_ms(-1);
        }
        fires
    }

    /// The first fire in `[from, to]`.
    fn first(&self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        next_fire(self.plan, self.offset_ms, from.saturating_add_ms(-1)).filter(|&first| first <= to)
    }

    /// How many fires lie in `[from, to]`; counted only where `max_fires` needs it, so that it costs nothing otherwise.
    fn count(&self, from: Timestamp, to: Timestamp) -> u32 {
        let Some(left) = self.fires_left else { return 0 };
        let offset = self.offset_ms as i64;
        let max = u64::from(left);
        self.plan.count(from.saturating_add_ms(-1 - offset), to.saturating_add_ms(-offset), max) as u32
    }

    /// The last instant in `[due, limit]` that the bounds allow.
    fn last_instant(&self, due: Timestamp, limit: Timestamp) -> Timestamp {
        let limit = self.ends_at.map_or(limit, |end| limit.min(end));
        let Some(left) = self.fires_left else { return limit };
        if self.count(due, limit) < left {
            return limit;
        }
        let mut at = due;
        for _ in 1..left {
            match next_fire(self.plan, self.offset_ms, at) {
                Some(next) if next <= limit => at = next,
                _ => break,
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CatchUpMode::{All, Coalesced, Last, LastN, None as Discard};

    const fn t(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// A job due every 10 s that missed everything since `t(100)`; it is `t(205)` now, so fires before `t(195)` are missed.
    fn check(mode: CatchUpMode, max_age_s: u64, fires_left: Option<u32>) -> Decision {
        let plan = Plan::decode("every 10000+0").unwrap();
        let series = Series { plan: &plan, offset_ms: 0, ends_at: None, fires_left, blackouts: &[] };
        decide(CatchUp { mode, max_age_ms: max_age_s * 1_000, drip_ms: 0 }, series, t(100), t(205))
    }

    fn cursor(next: i64) -> Cursor {
        Cursor { next_fire_at: Some(t(next)), fires_left: None }
    }

    #[test]
    fn a_late_fire_within_the_grace_runs_under_every_policy() {
        let plan = Plan::decode("every 10000+0").unwrap();
        let series = Series { plan: &plan, offset_ms: 0, ends_at: None, fires_left: None, blackouts: &[] };
        for mode in [Discard, Last, All, LastN(2)] {
            let decision = decide(CatchUp { mode, max_age_ms: 0, drip_ms: 0 }, series, t(100), t(110));
            assert_eq!(decision, Decision { fires: vec![t(100)], cursor: cursor(110), ..Decision::default() });
        }
    }

    #[test]
    fn none_discards_everything_missed() {
        let decision = check(Discard, 3_600, None);
        assert_eq!(decision.fires, []);
        assert_eq!(decision.skips, [(t(100), Timestamp::from_millis(194_999), Reason::MisfireDiscarded)]);
        assert_eq!(decision.cursor, cursor(200));
    }

    #[test]
    fn last_runs_one_and_says_what_it_stands_for() {
        let decision = check(Last, 3_600, None);
        assert_eq!(decision.fires, [t(190)]);
        assert_eq!(decision.skips, [(t(100), Timestamp::from_millis(189_999), Reason::MisfireCoalesced)]);
        assert_eq!(decision.cursor, cursor(200));
    }

    #[test]
    fn coalesced_runs_one_that_knows_since_when_it_stands_for_the_others() {
        let decision = check(Coalesced, 3_600, None);
        assert_eq!((decision.fires, decision.covers_from), (vec![t(190)], Some(t(100))));
        assert_eq!(decision.skips, [(t(100), Timestamp::from_millis(189_999), Reason::MisfireCoalesced)]);
        let decision = check(Coalesced, 30, None);
        assert_eq!((decision.fires, decision.covers_from), (vec![t(190)], Some(t(180))));
        assert_eq!(check(Coalesced, 10, None).covers_from, None, "it stands for nobody else");
        assert_eq!(check(Last, 3_600, None).covers_from, None);
    }

    #[test]
    fn what_stands_for_the_others_is_not_in_a_blackout() {
        let plan = Plan::decode("every 10000+0").unwrap();
        let blackouts = [
            Blackout { from: t(175), to: t(300) },
            Blackout { from: t(150), to: t(165) },
            Blackout { from: t(0), to: t(1) },
        ];
        let series = Series { plan: &plan, offset_ms: 0, ends_at: None, fires_left: None, blackouts: &blackouts };
        let fires = |mode| decide(CatchUp { mode, max_age_ms: 3_600_000, drip_ms: 0 }, series, t(100), t(205)).fires;
        assert_eq!(fires(Last), [t(170)]);
        assert_eq!(fires(LastN(3)), [t(130), t(140), t(170)]);
        assert_eq!(fires(LastN(100)), [t(100), t(110), t(120), t(130), t(140), t(170)]);
    }

    #[test]
    fn last_n_and_max_age_both_cut() {
        assert_eq!(check(LastN(3), 3_600, None).fires, [t(170), t(180), t(190)]);
        let decision = check(LastN(5), 30, None);
        assert_eq!(decision.fires, [t(180), t(190)]);
        assert_eq!(
            decision.skips,
            [
                (t(100), Timestamp::from_millis(174_999), Reason::Expired),
                (t(175), Timestamp::from_millis(179_999), Reason::MisfireCoalesced)
            ]
        );
    }

    #[test]
    fn all_runs_everything_young_enough() {
        assert_eq!(check(All, 3_600, None).fires.len(), 10);
        let decision = check(All, 30, None);
        assert_eq!(decision.fires, [t(180), t(190)]);
        assert_eq!(decision.skips, [(t(100), Timestamp::from_millis(174_999), Reason::Expired)]);
        assert_eq!(decision.cursor, cursor(200));
    }

    #[test]
    fn everything_too_old_is_one_skip() {
        let decision = check(Last, 1, None);
        assert_eq!(decision.fires, []);
        assert_eq!(decision.skips, [(t(100), Timestamp::from_millis(194_999), Reason::Expired)]);
    }

    #[test]
    fn max_fires_ends_the_series_inside_an_outage() {
        let decision = check(Last, 3_600, Some(3));
        assert_eq!(decision.fires, [t(120)]);
        assert_eq!(decision.cursor, Cursor { next_fire_at: None, fires_left: Some(0) });
        let decision = check(All, 3_600, Some(3));
        assert_eq!(decision.fires, [t(100), t(110), t(120)]);
        assert_eq!(decision.cursor, Cursor { next_fire_at: None, fires_left: Some(0) });
        assert_eq!(check(Last, 3_600, Some(100)).cursor.fires_left, Some(90));
    }

    #[test]
    fn a_late_one_off_runs_unless_its_policy_says_no() {
        let decide = |mode, now| decide_one_off(CatchUp { mode, max_age_ms: 60_000, drip_ms: 0 }, t(100), t(now));
        assert_eq!(decide(Discard, 110).fires, [t(100)]);
        assert_eq!(decide(Discard, 111).skips, [(t(100), t(100), Reason::MisfireDiscarded)]);
        assert_eq!(decide(Last, 160).fires, [t(100)]);
        assert_eq!(decide(Last, 161).skips, [(t(100), t(100), Reason::Expired)]);
    }

    #[test]
    fn a_year_of_seconds_is_decided_at_once() {
        let plan = Plan::decode("every 1000+0").unwrap();
        let series = Series { plan: &plan, offset_ms: 7, ends_at: None, fires_left: None, blackouts: &[] };
        let due = Timestamp::from_millis(7);
        let now = t(365 * 86_400);
        let policy = CatchUp { mode: All, max_age_ms: u64::MAX, drip_ms: 0 };
        assert_eq!(decide(policy, series, due, now).fires.len(), limits::CATCH_UP_FIRES_MAX);
        assert_eq!(decide(CatchUp { mode: Last, ..policy }, series, due, now).fires.len(), 1);
    }
}
