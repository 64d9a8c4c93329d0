//! A slow oracle of cron that shares no code with `Plan::next`: it reads the expression text itself, walks real minutes one
//! by one, takes the local time from the zone library's offsets, and applies the rules for skipped and repeated times by
//! looking at the change. It is simple enough to be believed.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};

use campanile_model::schedule::{DstFold, DstGap, zone_names};
use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 3600;
pub const DAY: i64 = 86_400;
pub const YEAR_1973: i64 = 94_694_400;
pub const YEAR_2041: i64 = 2_240_611_200;

/// A clock change: instant, offset before, offset after.
pub type Change = (i64, i64, i64);

pub struct Zone {
    pub name: String,
    pub first_offset: i64,
    pub changes: Vec<Change>,
}

pub fn stamp(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

pub fn offset_of(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset_info(stamp(second)).offset().seconds())
}

/// All zones with a distinct history from 1973 to 2040.
pub fn zones() -> Vec<Zone> {
    let mut distinct = BTreeMap::new();
    for name in zone_names() {
        let zone = TimeZoneDatabase::bundled().get(&name).unwrap();
        let first_offset = offset_of(&zone, YEAR_1973);
        let mut changes = Vec::new();
        for change in zone.following(stamp(YEAR_1973)) {
            let at = change.timestamp().as_second();
            if at >= YEAR_2041 {
                break;
            }
            let (before, after) = (offset_of(&zone, at - 1), offset_of(&zone, at));
            assert!(at % MINUTE == 0 && before % MINUTE == 0 && after % MINUTE == 0, "{name}: not in whole minutes");
            if before != after {
                changes.push((at, before, after));
            }
        }
        distinct.entry((first_offset, changes)).or_insert(name);
    }
    let zones = distinct.into_iter();
    zones.map(|((first_offset, changes), name)| Zone { name, first_offset, changes }).collect()
}

// The oracle's own reading of an expression.

pub struct Text {
    pub minutes: Vec<bool>,
    pub hours: Vec<bool>,
    pub day: String,
    pub month: Vec<bool>,
    pub weekday: String,
    pub fixed_time: bool,
}

impl Text {
    pub fn read(expression: &str) -> Text {
        let fields: Vec<&str> = expression.split(' ').collect();
        assert_eq!(fields.len(), 5);
        Text {
            minutes: (0..60).map(|value| listed(fields[0], value, 0, 59)).collect(),
            hours: (0..24).map(|value| listed(fields[1], value, 0, 23)).collect(),
            day: fields[2].to_owned(),
            month: (0..13).map(|value| listed(fields[3], value, 1, 12)).collect(),
            weekday: fields[4].to_owned(),
            fixed_time: !fields[0].starts_with('*') && !fields[1].starts_with('*'),
        }
    }

    pub fn matches_date(&self, date: Date) -> bool {
        if !self.month[date.month() as usize] {
            return false;
        }
        let by_day = self.day.split(',').any(|item| day_item(item, date));
        let by_weekday = self.weekday.split(',').any(|item| weekday_item(item, date));
        if self.day.starts_with('*') || self.weekday.starts_with('*') {
            by_day && by_weekday
        } else {
            by_day || by_weekday
        }
    }
}

pub fn listed(field: &str, value: i64, min: i64, max: i64) -> bool {
    field.split(',').any(|item| {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let step: i64 = step.parse().unwrap();
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
            None if item.contains('/') => (range.parse().unwrap(), max),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        value >= from && value <= to && (value - from) % step == 0
    })
}

pub fn is_weekend(date: Date) -> bool {
    matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

pub fn day_item(item: &str, date: Date) -> bool {
    if item == "L" {
        return date == date.last_of_month();
    }
    if item == "LW" {
        let mut last = date.last_of_month();
        while is_weekend(last) {
            last = last.yesterday().unwrap();
        }
        return date == last;
    }
    if let Some(day) = item.strip_suffix('W') {
        let Ok(wanted) = Date::new(date.year(), date.month(), day.parse().unwrap()) else {
            return false;
        };
        // The nearest weekday of the same month: at most two days away.
        let mut candidates: Vec<Date> = date.first_of_month().series(jiff::Span::new().days(1)).take(31).collect();
        candidates.retain(|candidate| candidate.month() == date.month() && !is_weekend(*candidate));
        let distance = |candidate: &Date| (candidate.day() - wanted.day()).abs();
        return candidates.into_iter().min_by_key(distance) == Some(date);
    }
    listed(item, i64::from(date.day()), 1, 31)
}

pub fn weekday_item(item: &str, date: Date) -> bool {
    let today = i64::from(date.weekday().to_sunday_zero_offset());
    if let Some((weekday, nth)) = item.split_once('#') {
        return today == weekday.parse::<i64>().unwrap() % 7 && (date.day() - 1) / 7 + 1 == nth.parse::<i8>().unwrap();
    }
    if let Some(weekday) = item.strip_suffix('L') {
        return today == weekday.parse::<i64>().unwrap() % 7 && date.day() + 7 > date.days_in_month();
    }
    listed(item, today, 0, 7) || (today == 0 && listed(item, 7, 0, 7))
}

/// Remembers whether the last date matched, since minutes come in order.
pub struct Matcher<'a> {
    pub text: &'a Text,
    pub day: i64,
    pub day_matches: bool,
}

impl<'a> Matcher<'a> {
    pub fn new(text: &'a Text) -> Self {
        Matcher { text, day: i64::MIN, day_matches: false }
    }

    /// Whether the wall clock's reading matches.
    pub fn matches(&mut self, local: i64) -> bool {
        let day = local.div_euclid(DAY);
        if day != self.day {
            let date = jiff::tz::Offset::UTC.to_datetime(stamp(day * DAY)).date();
            (self.day, self.day_matches) = (day, self.text.matches_date(date));
        }
        let minute_of_day = local.rem_euclid(DAY) / MINUTE;
        self.day_matches
            && self.text.minutes[(minute_of_day % 60) as usize]
            && self.text.hours[(minute_of_day / 60) as usize]
    }
}

/// All fires in `from..=to`, both whole minutes, by walking them.
pub fn oracle(zone: &Zone, text: &Text, gap: DstGap, fold: DstFold, from: i64, to: i64) -> BTreeSet<i64> {
    let mut fires = BTreeSet::new();
    let mut matcher = Matcher::new(text);
    let mut passed = zone.changes.partition_point(|change| change.0 <= from);
    let mut minute = from;
    while minute <= to {
        while zone.changes.get(passed).is_some_and(|change| change.0 <= minute) {
            passed += 1;
        }
        let previous = passed.checked_sub(1).map(|index| zone.changes[index]);
        let offset = previous.map_or(zone.first_offset, |change| change.2);
        let local = minute + offset;
        if matcher.matches(local) {
            // In a repeated hour: before the change it is the first pass, after it the second.
            let second_pass = previous.is_some_and(|(at, before, _)| local < at + before);
            let first_pass = zone.changes.get(passed).is_some_and(|(at, _, after)| local >= at + after);
            let wanted = match fold {
                _ if !text.fixed_time => true,
                DstFold::First => !second_pass,
                DstFold::Second => !first_pass,
                DstFold::Both => true,
            };
            if wanted {
                fires.insert(minute);
            }
        }
        minute += MINUTE;
    }
    if text.fixed_time {
        let mut matcher = Matcher::new(text);
        for &(at, before, after) in zone.changes.iter().filter(|change| change.0 >= from - DAY && change.0 <= to) {
            // The skipped readings of the clock, if it went forward.
            let mut local = at + before;
            while local < at + after {
                if matcher.matches(local) {
                    match gap {
                        DstGap::NextValid => fires.insert(at),
                        DstGap::Shift => fires.insert(local - before),
                        DstGap::Skip => false,
                    };
                }
                local += MINUTE;
            }
        }
        fires.retain(|fire| (from..=to).contains(fire));
    }
    fires
}
