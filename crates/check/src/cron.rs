//! Cron, by brute force: an expression is a question about one wall-clock second, and answers are found by asking all
//! of them.
//!
//! The rules are those of the cron guide. `H` and `@every` are not known here: a recorded job must not use them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// A second on a wall clock.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Local {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

/// What happens to local times that do not exist.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Gap {
    /// At the instant of the change.
    NextValid,
    /// As much later as the clock was moved.
    Shift,
    /// Never.
    Skip,
}

/// What happens to local times that come twice.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fold {
    First,
    Second,
    Both,
}

/// A cron expression in a zone.
#[derive(Clone, Debug)]
pub struct Cron {
    seconds: Vec<i64>,
    minutes: Vec<i64>,
    hours: Vec<i64>,
    days: Vec<Day>,
    months: Vec<i64>,
    weekdays: Vec<Weekday>,
    /// Both day fields must match; otherwise one of them.
    both_days: bool,
    /// Neither minute nor hour begins with `*`.
    fixed: bool,
    zone: TimeZone,
    gap: Gap,
    fold: Fold,
}

#[derive(Copy, Clone, Debug)]
enum Day {
    Number(i64),
    Last,
    LastWeekday,
    Nearest(i64),
}

#[derive(Copy, Clone, Debug)]
enum Weekday {
    Every(i64),
    Nth(i64, i64),
    Last(i64),
}

/// A stretch of time in which a zone's distance from UTC stays the same. Seconds; the end is excluded.
struct Stretch {
    from: i64,
    to: i64,
    offset: i64,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const DAY_S: i64 = 86_400;

impl Cron {
    pub fn new(text: &str, zone: &str, gap: Gap, fold: Fold) -> Result<Self, String> {
        let zone = TimeZone::get(zone).map_err(|error| format!("zone `{zone}`: {error}"))?;
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let upper = text.to_ascii_uppercase();
        let mut fields: Vec<&str> = upper.split_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [second, minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("cron `{text}`: {} fields", fields.len()));
        };
        let numbers = |field: &str, from, to, names: &[&str]| -> Result<Vec<i64>, String> {
            let mut all = Vec::new();
            for item in field.split(',') {
                all.extend(range(item, from, to, names).ok_or_else(|| format!("cron `{text}`: `{item}`"))?);
            }
            Ok(all)
        };
        let mut days = Vec::new();
        for item in day.split(',') {
            days.extend(day_item(item).ok_or_else(|| format!("cron `{text}`: day `{item}`"))?);
        }
        let mut weekdays = Vec::new();
        for item in weekday.split(',') {
            weekdays.extend(weekday_item(item).ok_or_else(|| format!("cron `{text}`: weekday `{item}`"))?);
        }
        let open = |field: &str| field.starts_with('*') || field == "?";
        Ok(Self {
            seconds: numbers(second, 0, 59, &[])?,
            minutes: numbers(minute, 0, 59, &[])?,
            hours: numbers(hour, 0, 23, &[])?,
            months: numbers(month, 1, 12, &MONTHS)?,
            days,
            weekdays,
            both_days: open(day) || open(weekday),
            fixed: !minute.starts_with('*') && !hour.starts_with('*'),
            zone,
            gap,
            fold,
        })
    }

    /// All fires after `after` up to and including `until`, both in milliseconds.
    pub fn between(&self, after_ms: i64, until_ms: i64) -> Vec<i64> {
        let (from, to) = (after_ms.div_euclid(1_000) + 1, until_ms.div_euclid(1_000));
        if from > to {
            return Vec::new();
        }
        // Clock changes move local times by a day at most.
        let stretches = self.stretches(from - 3 * DAY_S, to + 3 * DAY_S);
        let found = if self.fixed { self.fixed(&stretches, from, to) } else { self.wildcard(&stretches, from, to) };
        found.into_iter().filter(|at| (from..=to).contains(at)).map(|at| at * 1_000).collect()
    }

    /// Every real second whose wall clock matches.
    fn wildcard(&self, stretches: &[Stretch], from: i64, to: i64) -> BTreeSet<i64> {
        let mut found = BTreeSet::new();
        for stretch in stretches {
            let (from, to) = (stretch.from.max(from), (stretch.to - 1).min(to));
            self.local_matches(from + stretch.offset, to + stretch.offset, |local| {
                found.insert(local - stretch.offset);
            });
        }
        found
    }

    /// Every local time that matches, once.
    fn fixed(&self, stretches: &[Stretch], from: i64, to: i64) -> BTreeSet<i64> {
        let mut found = BTreeSet::new();
        self.local_matches(from - 2 * DAY_S, to + 2 * DAY_S, |local| {
            let real: Vec<i64> = stretches
                .iter()
                .filter(|stretch| (stretch.from..stretch.to).contains(&(local - stretch.offset)))
                .map(|stretch| local - stretch.offset)
                .collect();
            match (real.as_slice(), self.fold) {
                ([], _) => found.extend(self.in_gap(stretches, local)),
                ([only], _) => _ = found.insert(*only),
                ([first, ..], Fold::First) => _ = found.insert(*first),
                ([.., last], Fold::Second) => _ = found.insert(*last),
                (all, Fold::Both) => found.extend(all),
            }
        });
        found
    }

    /// When a local time fires that the clock has skipped.
    fn in_gap(&self, stretches: &[Stretch], local: i64) -> Option<i64> {
        let skipped = |pair: &&[Stretch]| {
            let change = pair[1].from;
            (change + pair[0].offset..change + pair[1].offset).contains(&local)
        };
        let pair = stretches.windows(2).find(skipped)?;
        match self.gap {
            Gap::NextValid => Some(pair[1].from),
            Gap::Shift => Some(local - pair[0].offset),
            Gap::Skip => None,
        }
    }

    /// Asks about every minute of a wall clock, and in those that match about every second.
    fn local_matches(&self, from: i64, to: i64, mut found: impl FnMut(i64)) {
        let mut minute = from.div_euclid(60) * 60;
        while minute <= to {
            if self.matches_minute(Local::of(minute)) {
                self.seconds
                    .iter()
                    .map(|second| minute + second)
                    .filter(|at| (from..=to).contains(at))
                    .for_each(&mut found);
            }
            minute += 60;
        }
    }

    fn matches_minute(&self, local: Local) -> bool {
        if !self.minutes.contains(&local.minute) || !self.hours.contains(&local.hour) {
            return false;
        }
        if !self.months.contains(&local.month) {
            return false;
        }
        let by_day = self.days.iter().any(|day| day.matches(local));
        let by_weekday = self.weekdays.iter().any(|weekday| weekday.matches(local));
        if self.both_days { by_day && by_weekday } else { by_day || by_weekday }
    }

    /// The zone's distances from UTC, found by asking about every quarter of an hour, and between two answers about
    /// every second.
    fn stretches(&self, from: i64, to: i64) -> Vec<Stretch> {
        let offset = |second: i64| {
            let at = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
            i64::from(self.zone.to_offset(at).seconds())
        };
        let mut all = vec![Stretch { from, to: from, offset: offset(from) }];
        let mut at = from;
        while at < to {
            let next = (at + 900).min(to);
            if offset(next) != all[all.len() - 1].offset {
                for second in at + 1..=next {
                    let last = all.len() - 1;
                    if offset(second) != all[last].offset {
                        all[last].to = second;
                        all.push(Stretch { from: second, to: second, offset: offset(second) });
                    }
                }
            }
            at = next;
        }
        let last = all.len() - 1;
        all[last].to = to + 1;
        all
    }
}

impl Local {
    /// The wall clock that shows this many seconds since 1970; nothing is asked about earlier ones.
    fn of(second: i64) -> Self {
        let (mut left, rest) = (second.div_euclid(DAY_S).max(0), second.rem_euclid(DAY_S));
        let mut year = 1970;
        while left >= year_days(year) {
            left -= year_days(year);
            year += 1;
        }
        let mut month = 1;
        while left >= month_days(year, month) {
            left -= month_days(year, month);
            month += 1;
        }
        Self { year, month, day: left + 1, hour: rest / 3_600, minute: rest / 60 % 60, second: rest % 60 }
    }

    /// 0 is Sunday.
    fn weekday(self) -> i64 {
        weekday(self.year, self.month, self.day)
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_days(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 is Sunday. 1970-01-01 was a Thursday.
fn weekday(year: i64, month: i64, day: i64) -> i64 {
    let years: i64 = (1970..year).map(year_days).sum();
    let months: i64 = (1..month).map(|month| month_days(year, month)).sum();
    (4 + years + months + day - 1).rem_euclid(7)
}

impl Day {
    fn matches(self, local: Local) -> bool {
        let last = month_days(local.year, local.month);
        let is_work_day = |day: i64| (1..=5).contains(&weekday(local.year, local.month, day));
        match self {
            Day::Number(day) => local.day == day,
            Day::Last => local.day == last,
            Day::LastWeekday => (1..=last).rev().find(|day| is_work_day(*day)) == Some(local.day),
            Day::Nearest(day) if day > last => false,
            Day::Nearest(day) => {
                let order = [day, day - 1, day + 1, day - 2, day + 2];
                order.into_iter().find(|near| (1..=last).contains(near) && is_work_day(*near)) == Some(local.day)
            }
        }
    }
}

impl Weekday {
    fn matches(self, local: Local) -> bool {
        let last = month_days(local.year, local.month);
        match self {
            Weekday::Every(day) => local.weekday() == day,
            Weekday::Nth(day, nth) => local.weekday() == day && (local.day - 1) / 7 + 1 == nth,
            Weekday::Last(day) => local.weekday() == day && local.day + 7 > last,
        }
    }
}

/// `*`, `a`, `a-b`, each with `/n`.
fn range(item: &str, min: i64, max: i64, names: &[&str]) -> Option<Vec<i64>> {
    let value = |text: &str| match names.iter().position(|name| *name == text) {
        Some(index) => Some(index as i64 + min),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        None => None,
    };
    let (span, step) = match item.split_once('/') {
        Some((span, step)) => (span, Some(step.parse::<i64>().ok().filter(|step| *step >= 1)?)),
        None => (item, None),
    };
    let (from, to) = match (span, span.split_once('-')) {
        ("*", _) => (min, max),
        (_, Some((from, to))) => (value(from)?, value(to)?),
        (_, None) if step.is_some() => (value(span)?, max),
        (_, None) => (value(span)?, value(span)?),
    };
    (min <= from && from <= to && to <= max).then(|| (from..=to).step_by(step.unwrap_or(1) as usize).collect())
}

fn day_item(item: &str) -> Option<Vec<Day>> {
    if let Some(day) = item.strip_suffix('W').filter(|day| *day != "L") {
        return Some(vec![Day::Nearest(day.parse().ok().filter(|day| (1..=31).contains(day))?)]);
    }
    match item {
        "L" => Some(vec![Day::Last]),
        "LW" => Some(vec![Day::LastWeekday]),
        "?" => Some((1..=31).map(Day::Number).collect()),
        _ => Some(range(item, 1, 31, &[])?.into_iter().map(Day::Number).collect()),
    }
}

fn weekday_item(item: &str) -> Option<Vec<Weekday>> {
    let one = |text: &str| range(text, 0, 7, &WEEKDAYS).filter(|days| days.len() == 1).map(|days| days[0] % 7);
    if let Some((day, nth)) = item.split_once('#') {
        return Some(vec![Weekday::Nth(one(day)?, nth.parse().ok().filter(|nth| (1..=5).contains(nth))?)]);
    }
    if let Some(day) = item.strip_suffix('L') {
        return Some(vec![Weekday::Last(one(day)?)]);
    }
    let days = if item == "?" { range("*", 0, 7, &WEEKDAYS) } else { range(item, 0, 7, &WEEKDAYS) };
    Some(days?.into_iter().map(|day| Weekday::Every(day % 7)).collect())
}
