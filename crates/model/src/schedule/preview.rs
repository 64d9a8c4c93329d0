//! Preview: the coming fires, each with its local time and what a clock change did to it.
//!
//! The local form is `Sun 2027-03-14 03:00 EDT`: weekday, date, wall clock, abbreviation of the offset in force (which
//! is what tells the two passes of a repeated hour apart). Seconds are written if the schedule has any, milliseconds
//! likewise. Schedules without a zone are shown in UTC.
//!
//! A note is written at the fire that a reader would wonder about: one that stands for a skipped time, one in a
//! repeated hour, and the first fire after times that were skipped and not made up.

use jiff::tz::TimeZone;

use super::changes::{Change, Precision, changes, local_text};
use super::cron::CronPlan;
use super::{DstFold, DstGap, Plan, PlanKind, Schedule, seconds_floor, zone};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    pub at: Timestamp,
    /// The wall clock of the schedule's zone, such as `Sun 2027-03-14 03:00 EDT`.
    pub local: String,
    /// What a clock change did to this fire, or to those before it.
    pub note: Option<String>,
}

/// The fires strictly after `from`, at most `n`. `plan` is what `schedule` resolved to.
pub fn preview(schedule: &Schedule, plan: &Plan, from: Timestamp, n: usize) -> Vec<Preview> {
    let utc = TimeZone::UTC;
    let zone = if let PlanKind::Cron(cron) = &plan.kind { &cron.zone } else { &utc };
    let precision = precision(plan);
    let mut previews = Vec::new();
    let mut before = from;
    while previews.len() < n {
        let Some(at) = plan.next(before) else { break };
        let note = match (&plan.kind, schedule) {
            (PlanKind::Cron(cron), _) => cron.note(seconds_floor(before), seconds_floor(at)),
            (PlanKind::At(_), Schedule::After { delay_ms }) => {
                Some(format!("{} after acceptance", super::format_duration_ms(*delay_ms)))
            }
            _ => None,
        };
        previews.push(Preview { at, local: local_text(zone, at, precision), note });
        before = at;
    }
    previews
}

/// The smallest unit in which fires of a plan differ.
pub(super) fn precision(plan: &Plan) -> Precision {
    let of_ms = |ms: i64| match ms {
        ms if ms % 1000 != 0 => Precision::Millisecond,
        ms if ms % 60_000 != 0 => Precision::Second,
        _ => Precision::Minute,
    };
    match &plan.kind {
        PlanKind::Cron(cron) if cron.fields.seconds == 1 => Precision::Minute,
        PlanKind::Cron(_) => Precision::Second,
        PlanKind::Every { every_ms, phase_ms } if of_ms(*phase_ms) == Precision::Minute => of_ms(*every_ms),
        PlanKind::Every { every_ms, phase_ms } if of_ms(*every_ms) == Precision::Minute => of_ms(*phase_ms),
        PlanKind::Every { every_ms, phase_ms } if every_ms % 1000 == 0 && phase_ms % 1000 == 0 => Precision::Second,
        PlanKind::Every { .. } => Precision::Millisecond,
        PlanKind::At(at) => of_ms(at.millis()),
        PlanKind::None => Precision::Minute,
    }
}

impl CronPlan {
    /// What clock changes did between the fire (or start) `before` and the fire `at`, and to `at` itself.
    fn note(&self, before: i64, at: i64) -> Option<String> {
        if self.constant_offset.is_some() {
            return None;
        }
        self.note_of_gap(before, at).or_else(|| self.note_of_fold(at))
    }

    fn note_of_gap(&self, before: i64, at: i64) -> Option<String> {
        // A shifted time fires up to the gap's length after the change, with other fires in between.
        let shifted = (self.dst_gap == DstGap::Shift && self.fields.fixed_time).then(|| {
            let segment = zone::segment(&self.zone, at);
            let (start, before) = segment.start?;
            let change = Change { at: start, before, after: segment.offset };
            let civil = at + before;
            (change.is_gap() && civil < change.civil().1 && self.fields.matches(civil)).then_some((change, civil))
        });
        if let Some((change, civil)) = shifted.flatten() {
            let others = self.other_gap_policies(&change);
            return Some(format!("{} does not exist; dst_gap=shift (others: {others})", self.clock(civil, false)));
        }
        let change = changes(&self.zone, before, at).find(|change| change.is_gap() && self.is_touched_by(change))?;
        let others = self.other_gap_policies(&change);
        match self.dst_gap {
            _ if !self.fields.fixed_time => {
                let (from, to) = change.civil();
                let (from, to) = (self.clock(from, change.spans_days()), self.clock(to, change.spans_days()));
                Some(format!("the clock went from {from} to {to}; a wildcard schedule makes up nothing"))
            }
            DstGap::NextValid if change.at == at => {
                let (times, several) = self.touched_times(&change, false);
                let verb = if several { "do" } else { "does" };
                Some(format!("{times} {verb} not exist; dst_gap=next_valid (others: {others})"))
            }
            DstGap::Skip => {
                let (times, _) = self.touched_times(&change, true);
                Some(format!("before this, {times} did not exist; dst_gap=skip (others: {others})"))
            }
            _ => None,
        }
    }

    fn note_of_fold(&self, at: i64) -> Option<String> {
        let segment = zone::segment(&self.zone, at);
        let civil = at + segment.offset;
        let first = segment.end.is_some_and(|(end, after)| civil >= end + after);
        let second = segment.start.is_some_and(|(start, before)| civil < start + before);
        if !first && !second {
            return None;
        }
        let pass = if first { "first" } else { "second" };
        let clock = self.clock(civil, false);
        Some(if !self.fields.fixed_time {
            format!("{clock} happens twice; a wildcard schedule fires both times, this is the {pass}")
        } else if self.dst_fold == DstFold::Both {
            format!("{clock} happens twice; fires both times, this is the {pass}; dst_fold=both")
        } else {
            format!("{clock} happens twice; {}; dst_fold={}", self.fold_choice(), self.dst_fold)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::HashSeed;

    /// The local times, each followed by its note.
    fn lines(expression: &str, zone: &str, policy: &str, from: &str, n: usize) -> Vec<String> {
        let (gap, fold) = policy.split_once(' ').unwrap();
        let schedule = Schedule::Cron {
            expression: expression.to_owned(),
            zone: zone.to_owned(),
            dst_gap: gap.parse().unwrap(),
            dst_fold: fold.parse().unwrap(),
        };
        let from = from.parse().unwrap();
        let plan = schedule.resolve(SEED, from).unwrap();
        let previews = preview(&schedule, &plan, from, n);
        previews.into_iter().flat_map(|preview| [Some(preview.local), preview.note].into_iter().flatten()).collect()
    }

    const SEED: HashSeed<'static> = HashSeed { tenant: "acme", job: "report" };
    const NEW_YORK: &str = "America/New_York";

    #[test]
    fn the_example_of_the_manual() {
        assert_eq!(
            lines("30 2 * * *", NEW_YORK, "next_valid first", "2027-03-13T05:00:00Z", 3),
            [
                "Sat 2027-03-13 02:30 EST",
                "Sun 2027-03-14 03:00 EDT",
                "02:30 does not exist; dst_gap=next_valid (others: shift 03:30, skip)",
                "Mon 2027-03-15 02:30 EDT",
            ]
        );
    }

    #[test]
    fn notes_on_skipped_times() {
        let spring = |expression, policy, n| lines(expression, NEW_YORK, policy, "2027-03-14T05:30:00Z", n);
        assert_eq!(
            spring("0,30 2 * * *", "next_valid first", 1)[1],
            "02:00, 02:30 do not exist; dst_gap=next_valid (others: shift 03:00, skip)"
        );
        assert_eq!(
            spring("0-59 2 * * *", "next_valid first", 1)[1],
            "02:00, 02:01, 02:02 and 57 more do not exist; dst_gap=next_valid (others: shift 03:00, skip)"
        );
        assert_eq!(
            spring("30 2,3 * * *", "shift first", 2),
            [
                "Sun 2027-03-14 03:30 EDT",
                "02:30 does not exist; dst_gap=shift (others: next_valid 03:00, skip)",
                "Mon 2027-03-15 02:30 EDT",
            ]
        );
        assert_eq!(
            spring("30 2 * * *", "skip first", 2),
            [
                "Mon 2027-03-15 02:30 EDT",
                "before this, 2027-03-14 02:30 did not exist; dst_gap=skip (others: next_valid 03:00, shift 03:30)",
                "Tue 2027-03-16 02:30 EDT",
            ]
        );
        assert_eq!(
            spring("30 * * * *", "skip first", 3),
            [
                "Sun 2027-03-14 01:30 EST",
                "Sun 2027-03-14 03:30 EDT",
                "the clock went from 02:00 to 03:00; a wildcard schedule makes up nothing",
                "Sun 2027-03-14 04:30 EDT",
            ]
        );
        assert_eq!(
            lines("0 12 * * *", "Pacific/Apia", "next_valid first", "2011-12-30T00:00:00Z", 1),
            [
                "Sat 2011-12-31 00:00 +14",
                "2011-12-30 12:00 does not exist; dst_gap=next_valid (others: shift 2011-12-31 12:00, skip)",
            ]
        );
    }

    #[test]
    fn notes_on_repeated_times() {
        let fall = |expression, policy, n| lines(expression, NEW_YORK, policy, "2026-11-01T04:30:00Z", n);
        assert_eq!(
            fall("30 1 * * *", "skip first", 2),
            [
                "Sun 2026-11-01 01:30 EDT",
                "01:30 happens twice; fires once, at the first; dst_fold=first",
                "Mon 2026-11-02 01:30 EST",
            ]
        );
        assert_eq!(
            fall("30 1 * * *", "skip second", 1),
            ["Sun 2026-11-01 01:30 EST", "01:30 happens twice; fires once, at the second; dst_fold=second"]
        );
        assert_eq!(
            fall("30 1 * * *", "skip both", 2),
            [
                "Sun 2026-11-01 01:30 EDT",
                "01:30 happens twice; fires both times, this is the first; dst_fold=both",
                "Sun 2026-11-01 01:30 EST",
                "01:30 happens twice; fires both times, this is the second; dst_fold=both",
            ]
        );
        assert_eq!(
            fall("0 * * * *", "skip first", 3),
            [
                "Sun 2026-11-01 01:00 EDT",
                "01:00 happens twice; a wildcard schedule fires both times, this is the first",
                "Sun 2026-11-01 01:00 EST",
                "01:00 happens twice; a wildcard schedule fires both times, this is the second",
                "Sun 2026-11-01 02:00 EST",
            ]
        );
    }

    #[test]
    fn schedules_without_clock_changes() {
        let from: Timestamp = "2026-11-16T03:00:00Z".parse().unwrap();
        let one = |schedule: Schedule| preview(&schedule, &schedule.resolve(SEED, from).unwrap(), from, 2);
        let every = one(Schedule::Every { every_ms: 250, phase_ms: 0 });
        assert_eq!(every[0].local, "Mon 2026-11-16 03:00:00.250 UTC");
        let after = one(Schedule::After { delay_ms: 600_000 });
        assert_eq!((after.len(), after[0].local.as_str()), (1, "Mon 2026-11-16 03:10 UTC"));
        assert_eq!(after[0].note.as_deref(), Some("10m after acceptance"));
        assert!(one(Schedule::None).is_empty());
        let seconds = lines("15 0 12 * * *", "UTC", "next_valid first", "2011-12-30T00:00:00Z", 1);
        assert_eq!(seconds, ["Fri 2011-12-30 12:00:15 UTC"]);
    }
}
