//! Clock changes as people see them: which times of a schedule they skip or repeat, and how to write a local time.
//!
//! Only `explain` and `preview` read this; it describes what `next` decided and decides nothing. Lists are cut to a few
//! entries, so that a schedule of every second does not fill the screen.

use jiff::tz::TimeZone;

use super::civil::{DAY_SECONDS, date, weekday};
use super::cron::CronPlan;
use super::{DstFold, DstGap, zone};
use crate::time::Timestamp;

pub(super) const WEEKDAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// How many of the touched times are written out.
const TIMES_SHOWN_MAX: usize = 3;
/// How many of them are counted.
const TIMES_COUNTED_MAX: usize = 1000;

/// A clock change: the instant, and the offsets on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub at: i64,
    pub before: i64,
    pub after: i64,
}

impl Change {
    pub fn is_gap(&self) -> bool {
        self.after > self.before
    }

    /// Whether a time of day alone would be ambiguous.
    pub fn spans_days(&self) -> bool {
        (self.after - self.before).abs() >= DAY_SECONDS
    }

    /// The civil seconds that the change skips or repeats, end excluded.
    pub fn civil(&self) -> (i64, i64) {
        (self.at + self.before.min(self.after), self.at + self.before.max(self.after))
    }
}

/// The changes of the clock in `(from, to]`.
pub(super) fn changes(zone: &TimeZone, from: i64, to: i64) -> impl Iterator<Item = Change> + '_ {
    let mut before = zone::offset(zone, from);
    zone.following(zone::second(from)).take_while(move |change| change.timestamp() <= zone::second(to)).filter_map(
        move |change| {
            let after = i64::from(change.offset().seconds());
            let found = Change { at: change.timestamp().as_second(), before, after };
            before = after;
            (found.before != found.after).then_some(found)
        },
    )
}

impl CronPlan {
    /// Whether a change skips or repeats any time of the schedule.
    pub fn is_touched_by(&self, change: &Change) -> bool {
        let (from, to) = change.civil();
        self.fields.search(from, to).is_some()
    }

    /// The touched times in words, such as `02:00, 02:30`, and whether there are several. With their date if asked, or
    /// if the change spans days.
    pub fn touched_times(&self, change: &Change, dated: bool) -> (String, bool) {
        let (from, to) = change.civil();
        let mut times = Vec::new();
        let mut next = from;
        while times.len() < TIMES_COUNTED_MAX {
            let Some(civil) = self.fields.search(next, to) else {
                break;
            };
            times.push(civil);
            next = civil + 1;
        }
        let dated = dated || change.spans_days();
        let shown: Vec<String> = times.iter().take(TIMES_SHOWN_MAX).map(|civil| self.clock(*civil, dated)).collect();
        let text = match times.len() {
            TIMES_COUNTED_MAX => format!("{} and many more", shown.join(", ")),
            count if count > TIMES_SHOWN_MAX => format!("{} and {} more", shown.join(", "), count - TIMES_SHOWN_MAX),
            _ => shown.join(", "),
        };
        (text, times.len() > 1)
    }

    /// What the policies that were not chosen would do with the first time in a gap.
    pub fn other_gap_policies(&self, change: &Change) -> String {
        let (from, to) = change.civil();
        let dated = change.spans_days();
        let first = self.fields.search(from, to).unwrap_or(from);
        let shift = format!("shift {}", self.clock(first - change.before + change.after, dated));
        let next_valid = format!("next_valid {}", self.clock(to, dated));
        match self.dst_gap {
            DstGap::NextValid => format!("{shift}, skip"),
            DstGap::Shift => format!("{next_valid}, skip"),
            DstGap::Skip => format!("{next_valid}, {shift}"),
        }
    }

    /// What the schedule does with repeated times.
    pub fn fold_choice(&self) -> &'static str {
        match self.dst_fold {
            DstFold::First => "fires once, at the first",
            DstFold::Second => "fires once, at the second",
            DstFold::Both => "fires both times",
        }
    }

    /// A civil second as a time of day, to the second if the schedule has any, and with its date if asked.
    pub fn clock(&self, civil: i64, dated: bool) -> String {
        let precision =
            if self.fields.seconds == 1 && civil.rem_euclid(60) == 0 { Precision::Minute } else { Precision::Second };
        let time = time_of_day(civil.saturating_mul(1000), precision);
        if dated { format!("{} {time}", date_text(civil)) } else { time }
    }
}

/// The smallest unit that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Minute,
    Second,
    Millisecond,
}

/// An instant as the wall clock of a zone shows it: `Sun 2027-03-14 03:00 EDT`.
pub(super) fn local_text(zone: &TimeZone, at: Timestamp, precision: Precision) -> String {
    let second = at.millis().div_euclid(1000);
    let info = zone.to_offset_info(zone::second(second));
    let civil_ms = at.millis().saturating_add(i64::from(info.offset().seconds()) * 1000);
    let civil = civil_ms.div_euclid(1000);
    let weekday = WEEKDAYS_SHORT[usize::from(weekday(civil.div_euclid(DAY_SECONDS)))];
    format!("{weekday} {} {} {}", date_text(civil), time_of_day(civil_ms, precision), info.abbreviation())
}

/// The date of a civil second, as `2027-03-14`.
pub(super) fn date_text(civil: i64) -> String {
    let (year, month, day) = date(civil.div_euclid(DAY_SECONDS));
    format!("{year:04}-{month:02}-{day:02}")
}

fn time_of_day(civil_ms: i64, precision: Precision) -> String {
    let (second, ms) = (civil_ms.div_euclid(1000).rem_euclid(DAY_SECONDS), civil_ms.rem_euclid(1000));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    match precision {
        Precision::Minute => format!("{hour:02}:{minute:02}"),
        Precision::Second => format!("{hour:02}:{minute:02}:{second:02}"),
        Precision::Millisecond => format!("{hour:02}:{minute:02}:{second:02}.{ms:03}"),
    }
}
