//! Explain: what a schedule means, in words, figures and warnings.
//!
//! For whoever wrote an expression and wants to know whether it is what they meant. It says in one sentence when the
//! job fires, how often in the coming year, and lists whatever is easily misread: how the two day fields are joined,
//! steps that do not divide their unit, months that are left out, the values behind `H`, and each clock change of the
//! coming year with what it does to this schedule. Nothing here decides anything: all facts come from the plan.

use super::changes::{Change, Precision, WEEKDAYS_SHORT, changes, date_text, local_text};
use super::civil::{DAY_SECONDS, month_length, weekday};
use super::cron::CronPlan;
use super::words::{sentence, values};
use super::{DstGap, Plan, PlanKind, Schedule, format_duration_ms, from_seconds, seconds_floor, zone};
use crate::time::Timestamp;

/// The coming year, which is what the figures are about.
const YEAR_SECONDS: i64 = 365 * DAY_SECONDS;
/// Fires of the coming year that are looked at one by one; busier schedules are estimated.
const FIRES_COUNTED_MAX: u64 = 10_000;

/// What a schedule means, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// One sentence, such as "At 01:30 every day, New York time."
    pub words: String,
    /// The fields of a cron expression by name, `H` replaced; or the parameters of another kind of schedule.
    pub fields: Vec<(String, String)>,
    /// How often in the coming year, and the shortest and the longest distance between two fires.
    pub rate: String,
    /// What is easily misread. Notes on clock changes start with `DST:`, or with `DST ok:` if nothing happens.
    pub notes: Vec<String>,
}

/// Explains a schedule, with the figures and clock changes of the year after `from`. `plan` is what it resolved to.
pub fn explain(schedule: &Schedule, plan: &Plan, from: Timestamp) -> Explanation {
    let fields =
        |pairs: &[(&str, String)]| pairs.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    match &plan.kind {
        PlanKind::Cron(cron) => Explanation {
            words: sentence(cron),
            fields: cron.named_fields(),
            rate: cron.rate(plan, from),
            notes: cron.notes(schedule, seconds_floor(from)),
        },
        PlanKind::Every { every_ms, phase_ms } => {
            let (every, phase) = (format_duration_ms(*every_ms as u64), format_duration_ms(*phase_ms as u64));
            let offset = if *phase_ms == 0 { String::new() } else { format!(" plus {phase}") };
            Explanation {
                words: format!("Every {every}, counted from 1970-01-01T00:00:00Z{offset}."),
                fields: fields(&[("every", every), ("phase", phase)]),
                rate: every_rate(*every_ms),
                notes: vec!["the same on all nodes; restarts and clock changes do not shift it".to_owned()],
            }
        }
        PlanKind::At(at) => Explanation {
            words: format!("Once, at {at}."),
            fields: fields(&[("at", at.to_string())]),
            rate: "once".to_owned(),
            notes: one_off_notes(schedule, *at, from),
        },
        PlanKind::None => Explanation {
            words: "Only when fired by hand or by a parent.".to_owned(),
            fields: Vec::new(),
            rate: "never by itself".to_owned(),
            notes: Vec::new(),
        },
    }
}

fn one_off_notes(schedule: &Schedule, at: Timestamp, from: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    if let Schedule::After { delay_ms } = schedule {
        notes.push(format!("{} after acceptance", format_duration_ms(*delay_ms)));
    }
    if at <= from {
        notes.push("in the past".to_owned());
    }
    notes
}

fn every_rate(every_ms: i64) -> String {
    const DAY_MS: i64 = DAY_SECONDS * 1000;
    if every_ms <= DAY_MS {
        let about = if DAY_MS % every_ms == 0 { "" } else { "about " };
        format!("{about}{} a day", DAY_MS / every_ms)
    } else {
        format!("about {} a year", 365 * DAY_MS / every_ms)
    }
}

/// A distance between fires; about a day it is told in hours, since that is where clock changes show.
fn gap_text(ms: u64) -> String {
    const HOUR_MS: u64 = 3_600_000;
    if (24 * HOUR_MS..48 * HOUR_MS).contains(&ms) && ms.is_multiple_of(HOUR_MS) {
        return format!("{}h", ms / HOUR_MS);
    }
    format_duration_ms(ms)
}

impl CronPlan {
    fn named_fields(&self) -> Vec<(String, String)> {
        const NAMES: [&str; 6] = ["second", "minute", "hour", "day-of-month", "month", "day-of-week"];
        let texts: Vec<&str> = self.text.split(' ').collect();
        let names = &NAMES[6 - texts.len().min(6)..];
        names.iter().zip(texts).map(|(name, text)| ((*name).to_owned(), text.to_owned())).collect()
    }

    /// Fires per day in civil time.
    fn per_day(&self) -> u64 {
        let fields = &self.fields;
        let times = u64::from(fields.minutes.count_ones()) * u64::from(fields.hours.count_ones());
        times * u64::from(fields.seconds.count_ones())
    }

    fn rate(&self, plan: &Plan, from: Timestamp) -> String {
        let days = self.days_in_year(from);
        let per_day = match self.per_day() {
            n if days >= 365 => format!("{n} a day, "),
            1 => String::new(),
            n => format!("{n} on each of its days, "),
        };
        let estimate = self.per_day().saturating_mul(days);
        if estimate > FIRES_COUNTED_MAX {
            return format!("{per_day}about {estimate} a year");
        }
        let until = from_seconds(seconds_floor(from).saturating_add(YEAR_SECONDS));
        let mut fires = Vec::new();
        let mut at = from;
        while let Some(next) = plan.next(at).filter(|next| *next <= until) {
            fires.push(next);
            at = next;
        }
        match (fires.len(), plan.next(from)) {
            (0, Some(next)) => format!("less than once a year; next {}", self.local(next)),
            (0, None) => "never again".to_owned(),
            (count, _) => format!("{per_day}{count} a year{}", self.gaps(&fires)),
        }
    }

    /// The matching days of the twelve months from the current one on.
    fn days_in_year(&self, from: Timestamp) -> u64 {
        let (year, month, _) = super::civil::date(seconds_floor(from).clamp(0, super::SECOND_MAX) / DAY_SECONDS);
        let months = (0..12).map(|ahead| {
            let index = i64::from(month) - 1 + ahead;
            self.fields.month_days(year + index / 12, (index % 12 + 1) as u8).count_ones()
        });
        months.map(u64::from).sum()
    }

    fn gaps(&self, fires: &[Timestamp]) -> String {
        let gap = |pair: &&[Timestamp]| pair[1].ms_since(pair[0]);
        let pairs = || fires.windows(2);
        let (Some(short), Some(long)) = (pairs().min_by_key(gap), pairs().rev().max_by_key(gap)) else {
            return String::new();
        };
        let (shortest, longest) = (gap(&short), gap(&long));
        if shortest == longest {
            return format!("; always {} apart", gap_text(shortest));
        }
        let on = |at: Timestamp| {
            let second = seconds_floor(at);
            date_text(second + zone::offset(&self.zone, second))
        };
        let (shortest, longest) = (gap_text(shortest), gap_text(longest));
        format!("; shortest gap {shortest} ({}), longest {longest} ({})", on(short[0]), on(long[0]))
    }

    fn local(&self, at: Timestamp) -> String {
        let precision = if self.fields.seconds == 1 { Precision::Minute } else { Precision::Second };
        local_text(&self.zone, at, precision)
    }

    fn notes(&self, schedule: &Schedule, from: i64) -> Vec<String> {
        let mut notes = self.hash_notes(schedule);
        notes.push(self.day_rule());
        notes.extend(self.step_notes());
        notes.extend(self.short_month_note());
        if self.constant_offset.is_none() {
            notes.push(
                if self.fields.fixed_time {
                    "fixed-time: dst_gap and dst_fold decide what clock changes do"
                } else {
                    "wildcard: follows real time; skipped times are not made up, repeated ones fire in both passes"
                }
                .to_owned(),
            );
            notes.extend(
                changes(&self.zone, from, from.saturating_add(YEAR_SECONDS)).map(|change| self.change_note(&change)),
            );
        }
        notes
    }

    /// The values that `H` took for this job.
    fn hash_notes(&self, schedule: &Schedule) -> Vec<String> {
        let Schedule::Cron { expression, .. } = schedule else {
            return Vec::new();
        };
        let written: Vec<&str> = expression.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let mut resolved = self.named_fields();
        // Zero seconds are dropped from the canonical text.
        if written.len() == resolved.len() + 1 {
            resolved.insert(0, ("second".to_owned(), "0".to_owned()));
        }
        let hashed =
            written.iter().zip(resolved).filter(|(word, _)| word.split(',').any(|item| item.starts_with(['H', 'h'])));
        hashed.map(|(word, (name, text))| format!("{word} in the {name} field is {text} for this job")).collect()
    }

    fn day_rule(&self) -> String {
        let named = self.named_fields();
        let text = |name: &str| named.iter().find(|(field, _)| field == name).map_or("", |(_, text)| text);
        match (text("day-of-month"), text("day-of-week")) {
            (day, weekday) if !self.fields.days_and => format!(
                "days: OR, either day-of-month ({day}) or day-of-week ({weekday}) may match: neither starts with *"
            ),
            (day, _) if day.starts_with('*') => {
                "days: AND, both day fields must match: day-of-month starts with *".to_owned()
            }
            _ => "days: AND, both day fields must match: day-of-week starts with *".to_owned(),
        }
    }

    /// Steps that do not divide their unit leave a shorter distance at the turn.
    fn step_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, text) in self.named_fields() {
            let Some(step) = text.strip_prefix("*/").and_then(|step| step.parse::<usize>().ok()) else {
                continue;
            };
            let (bits, size) = match name.as_str() {
                "second" => (self.fields.seconds, 60),
                "minute" => (self.fields.minutes, 60),
                "hour" => (u64::from(self.fields.hours), 24),
                "month" => (u64::from(self.fields.months), 12),
                "day-of-month" => {
                    notes.push(format!("{text} is uneven: day-of-month starts again from 1 each month"));
                    continue;
                }
                _ => (u64::from(self.fields.weekdays), 7),
            };
            if size % step == 0 {
                continue;
            }
            let values = values(bits);
            let (Some(first), Some(last)) = (values.first(), values.last()) else {
                continue;
            };
            let rest = size + first - last;
            notes.push(format!(
                "{text} is uneven: in the {name} field {last} is followed by {first}, {rest} later instead of {step}"
            ));
        }
        notes
    }

    /// Days 29 to 31 do not exist in every month.
    fn short_month_note(&self) -> Option<String> {
        let fields = &self.fields;
        let days = values(u64::from(fields.days | fields.days_nearest));
        let first = *days.first().filter(|day| **day >= 29)?;
        let others = fields.last_day || fields.last_weekday || !fields.days_and;
        let short = (1..=12u8).any(|month| fields.months & 1 << month != 0 && month_length(2027, month) < first as u32);
        (short && !others).then(|| format!("months without day {first} are left out; L is the last day of every month"))
    }

    fn change_note(&self, change: &Change) -> String {
        let (from, to) = change.civil();
        let dated = change.spans_days();
        let day = format!("{} {}", WEEKDAYS_SHORT[usize::from(weekday(from.div_euclid(DAY_SECONDS)))], date_text(from));
        let range = format!("{}-{}", self.clock(from, dated), self.clock(to, dated));
        let what = if change.is_gap() { "does not exist" } else { "happens twice" };
        if !self.is_touched_by(change) {
            return format!("DST ok: {day}, {range} {what}, which holds none of its times");
        }
        if !self.fields.fixed_time {
            let then = if change.is_gap() { "nothing is made up" } else { "fires in both passes" };
            return format!("DST: {day}, {range} {what}; {then}");
        }
        let (times, several) = self.touched_times(change, false);
        if !change.is_gap() {
            let verb = if several { "happen" } else { "happens" };
            let (choice, instants) = (self.fold_choice(), self.fold_instants(change));
            return format!("DST: {day} {times} {verb} twice; {choice}{instants}; dst_fold={}", self.dst_fold);
        }
        let first = self.fields.search(from, to).unwrap_or(from);
        let instead = match self.dst_gap {
            DstGap::NextValid => format!("fires at {} instead", self.clock(to, dated)),
            DstGap::Shift => format!("fires at {} instead", self.clock(first - change.before + change.after, dated)),
            DstGap::Skip => "does not fire".to_owned(),
        };
        let verb = if several { "do" } else { "does" };
        let (gap, others) = (self.dst_gap, self.other_gap_policies(change));
        format!("DST: {day} {times} {verb} not exist; {instead}; dst_gap={gap} (others: {others})")
    }

    /// The instants at which the first repeated time fires.
    fn fold_instants(&self, change: &Change) -> String {
        let (from, to) = change.civil();
        let Some(civil) = self.fields.search(from, to) else {
            return String::new();
        };
        let utc = |offset: i64| format!("{}Z", self.clock(civil - offset, false));
        match self.dst_fold {
            super::DstFold::First => format!(" ({})", utc(change.before)),
            super::DstFold::Second => format!(" ({})", utc(change.after)),
            super::DstFold::Both => format!(" ({} and {})", utc(change.before), utc(change.after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{DstFold, HashSeed};

    fn explained(expression: &str, zone: &str) -> Explanation {
        let schedule = Schedule::Cron {
            expression: expression.to_owned(),
            zone: zone.to_owned(),
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        };
        let from = "2026-10-30T00:00:00Z".parse().unwrap();
        let plan = schedule.resolve(HashSeed { tenant: "acme", job: "report" }, from).unwrap();
        explain(&schedule, &plan, from)
    }

    #[test]
    fn the_example_of_the_manual() {
        let explained = explained("30 1 * * *", "America/New_York");
        assert_eq!(explained.words, "At 01:30 every day, New York time.");
        let fields: Vec<String> = explained.fields.iter().map(|(name, text)| format!("{name} {text}")).collect();
        assert_eq!(fields.join(" | "), "minute 30 | hour 1 | day-of-month * | month * | day-of-week *");
        assert_eq!(explained.rate, "1 a day, 365 a year; shortest gap 23h (2027-03-14), longest 25h (2026-11-01)");
        assert_eq!(
            explained.notes[2..],
            [
                "DST: Sun 2026-11-01 01:30 happens twice; fires once, at the first (05:30Z); dst_fold=first",
                "DST ok: Sun 2027-03-14, 02:00-03:00 does not exist, which holds none of its times",
            ]
        );
    }

    #[test]
    fn sentences() {
        for (expression, expected) in [
            ("* * * * *", "Every minute, UTC."),
            ("*/5 * * * *", "Every 5 minutes, UTC."),
            ("*/7 * * * *", "At minutes 0, 7, 14, ..., 56 of every hour, UTC."),
            ("0 * * * *", "At minute 0 of every hour, UTC."),
            ("0 */2 * * *", "At minute 0 of every 2nd hour every day, UTC."),
            ("0 9-17 * * 1-5", "At minute 0 of hours 9-17 on Monday to Friday, UTC."),
            ("*/30 9-17 * * MON", "Every 30 minutes of hours 9-17 on Monday, UTC."),
            ("0,30 2,3 * * *", "At 02:00, 02:30, 03:00 and 03:30 every day, UTC."),
            ("0 0 13 * FRI", "At 00:00 on day 13 of the month or on Friday, UTC."),
            ("0 0 */10 * FRI", "At 00:00 on days 1, 11, 21 and 31 of the month if it is Friday, UTC."),
            (
                "0 0 L,15W 3-5 *",
                "At 00:00 on the weekday nearest to day 15 and the last day of the month in March to May, UTC.",
            ),
            ("0 0 * * 1#2,5L", "At 00:00 on the second Monday of the month and the last Friday of the month, UTC."),
            ("* * * * * *", "Every second, UTC."),
            ("*/15 * * * * *", "Every 15 seconds, UTC."),
            ("30 * * * * *", "At second 30 of every minute, UTC."),
            ("15 30 2 * * *", "At 02:30:15 every day, UTC."),
            ("* 30 2 * * *", "Every second of minute 30 of hour 2 every day, UTC."),
            ("0 0 1 1 *", "At 00:00 on day 1 of the month in January, UTC."),
        ] {
            assert_eq!(explained(expression, "UTC").words, expected, "{expression}");
        }
    }

    #[test]
    fn rates() {
        for (expression, expected) in [
            ("* * * * * *", "86400 a day, about 31536000 a year"),
            ("0 */6 * * *", "4 a day, 1460 a year; always 6h apart"),
            ("0 0 29 2 *", "less than once a year; next Tue 2028-02-29 00:00 UTC"),
            ("0 0 1 1 *", "1 a year"),
            (
                "0,30 12 L * *",
                "2 on each of its days, 24 a year; shortest gap 30m (2026-10-31), longest 30d23h30m (2026-11-30)",
            ),
        ] {
            assert_eq!(explained(expression, "UTC").rate, expected, "{expression}");
        }
    }

    #[test]
    fn warnings() {
        let has = |expression: &str, zone: &str, expected: &str| {
            let notes = explained(expression, zone).notes;
            assert!(notes.iter().any(|note| note.contains(expected)), "{expression}: {notes:?}");
        };
        has("0 0 13 * FRI", "UTC", "OR, either day-of-month (13) or day-of-week (5) may match");
        has("0 0 */2 * FRI", "UTC", "AND, both day fields must match: day-of-month starts with *");
        has("0 0 2 * *", "UTC", "AND, both day fields must match: day-of-week starts with *");
        has("*/7 * * * *", "UTC", "56 is followed by 0, 4 later instead of 7");
        has("0 0 */2 * *", "UTC", "*/2 is uneven: day-of-month starts again");
        has("0 0 31 * *", "UTC", "months without day 31 are left out");
        has("0 H H(1-5) * * *", "UTC", "H(1-5) in the hour field is 2 for this job");
        has(
            "30 2 * * *",
            "America/New_York",
            "Sun 2027-03-14 02:30 does not exist; fires at 03:00 instead; dst_gap=next_valid (others: shift 03:30",
        );
        has("0 * * * *", "America/New_York", "DST: Sun 2026-11-01, 01:00-02:00 happens twice; fires in both passes");
        assert!(!explained("0 0 * * *", "UTC").notes.iter().any(|note| note.contains("DST")));
    }

    #[test]
    fn other_kinds() {
        let from: Timestamp = "2026-10-30T00:00:00Z".parse().unwrap();
        let words = |schedule: Schedule| {
            let plan = schedule.resolve(HashSeed { tenant: "acme", job: "report" }, from).unwrap();
            let explained = explain(&schedule, &plan, from);
            format!("{} {}", explained.words, explained.rate)
        };
        assert_eq!(
            words(Schedule::Every { every_ms: 90_000, phase_ms: 0 }),
            "Every 1m30s, counted from 1970-01-01T00:00:00Z. 960 a day"
        );
        assert_eq!(words(Schedule::After { delay_ms: 1000 }), "Once, at 2026-10-30T00:00:01Z. once");
        assert_eq!(words(Schedule::None), "Only when fired by hand or by a parent. never by itself");
    }
}
