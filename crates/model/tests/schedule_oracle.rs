//! `Plan::next` against a slow oracle that shares no code with it, over every clock change of every zone.
//!
//! The oracle reads the expression text itself, walks real minutes one by one, takes the local time from the zone
//! library's offsets, and applies the rules for skipped and repeated times by looking at the change. It is simple
//! enough to be believed. Expressions and policies are drawn by a fixed seed, with times near the change, so that each
//! run is the same and each clock change from 1973 to 2040 is covered.

use std::collections::{BTreeMap, BTreeSet};

use campanile_model::schedule::{DstFold, DstGap, HashSeed, Plan, Schedule, zone_names};
use campanile_model::time::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
const YEAR_1973: i64 = 94_694_400;
const YEAR_2041: i64 = 2_240_611_200;

/// A clock change: instant, offset before, offset after.
type Change = (i64, i64, i64);

struct Zone {
    name: String,
    first_offset: i64,
    changes: Vec<Change>,
}

fn stamp(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap()
}

fn offset_of(zone: &TimeZone, second: i64) -> i64 {
    i64::from(zone.to_offset_info(stamp(second)).offset().seconds())
}

/// All zones with a distinct history from 1973 to 2040.
fn zones() -> Vec<Zone> {
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

struct Text {
    minutes: Vec<bool>,
    hours: Vec<bool>,
    day: String,
    month: Vec<bool>,
    weekday: String,
    fixed_time: bool,
}

impl Text {
    fn read(expression: &str) -> Text {
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

    fn matches_date(&self, date: Date) -> bool {
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

fn listed(field: &str, value: i64, min: i64, max: i64) -> bool {
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

fn is_weekend(date: Date) -> bool {
    matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

fn day_item(item: &str, date: Date) -> bool {
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

fn weekday_item(item: &str, date: Date) -> bool {
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
struct Matcher<'a> {
    text: &'a Text,
    day: i64,
    day_matches: bool,
}

impl<'a> Matcher<'a> {
    fn new(text: &'a Text) -> Self {
        Matcher { text, day: i64::MIN, day_matches: false }
    }

    /// Whether the wall clock's reading matches.
    fn matches(&mut self, local: i64) -> bool {
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
fn oracle(zone: &Zone, text: &Text, gap: DstGap, fold: DstFold, from: i64, to: i64) -> BTreeSet<i64> {
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

// Drawing expressions.

/// SplitMix64: small, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: i64) -> i64 {
        (self.next() % n as u64) as i64
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as i64) as usize]
    }
}

fn draw_minute(draw: &mut Draw) -> String {
    match draw.below(8) {
        0 => "*".to_owned(),
        1 => format!("*/{}", draw.one_of(&["5", "7", "15", "30", "59"])),
        2 => format!("{}/{}", draw.below(30), 1 + draw.below(40)),
        3 => format!("{}-{}", draw.below(30), 30 + draw.below(30)),
        4 => format!("{},{}", draw.below(60), draw.below(60)),
        5 => "0".to_owned(),
        _ => draw.below(60).to_string(),
    }
}

/// Hours near the change: the touched ones, and those around them.
fn draw_hour(draw: &mut Draw, near: i64) -> String {
    let hour = (near + 24 + draw.below(5) - 2) % 24;
    match draw.below(8) {
        0 => "*".to_owned(),
        1 => draw.one_of(&["*/2", "*/3", "*/5", "*/23"]).to_owned(),
        2 => format!("{},{hour}", (hour + 1) % 24),
        3 => format!("{}-{hour}", draw.below(hour + 1)),
        4 => format!("{hour}/{}", 1 + draw.below(6)),
        5 => "0-23".to_owned(),
        _ => hour.to_string(),
    }
}

fn draw_days(draw: &mut Draw, date: Date) -> (String, String, String) {
    let (day, weekday) = (date.day(), date.weekday().to_sunday_zero_offset());
    let month = match draw.below(6) {
        0 => date.month().to_string(),
        1 => format!("{},{}", 1 + draw.below(12), date.month()),
        2 => "*/2".to_owned(),
        _ => "*".to_owned(),
    };
    let month_day = match draw.below(12) {
        0 => day.to_string(),
        1 => format!("{}-{day}", (day - 2).max(1)),
        2 => "*/2".to_owned(),
        3 => draw.one_of(&["L", "LW", "1,L", "*/7,15"]).to_owned(),
        4 => format!("{day}W"),
        5 => format!("1-{}", 20 + draw.below(12)),
        _ => "*".to_owned(),
    };
    let of_week = match draw.below(12) {
        0 => weekday.to_string(),
        1 => draw.one_of(&["0", "7", "1-5", "5-7", "*/2", "1/2"]).to_owned(),
        2 => format!("{weekday}#{}", (day - 1) / 7 + 1),
        3 => format!("{weekday}L"),
        4 => format!("{},{}L,1#1", 6, weekday),
        _ => "*".to_owned(),
    };
    (month_day, month, of_week)
}

fn draw_policy(draw: &mut Draw) -> (DstGap, DstFold) {
    let gap = [DstGap::NextValid, DstGap::Shift, DstGap::Skip][draw.below(3) as usize];
    (gap, [DstFold::First, DstFold::Second, DstFold::Both][draw.below(3) as usize])
}

fn resolve(expression: &str, zone: &str, gap: DstGap, fold: DstFold) -> Option<Plan> {
    let schedule =
        Schedule::Cron { expression: expression.to_owned(), zone: zone.to_owned(), dst_gap: gap, dst_fold: fold };
    match schedule.resolve(HashSeed { tenant: "acme", job: "report" }, Timestamp::from_millis(YEAR_1973 * 1000)) {
        Ok(plan) => Some(plan),
        Err(error) => {
            assert_eq!(error.code, "cron_never_fires", "{expression}: {error:?}");
            None
        }
    }
}

fn next(plan: &Plan, after: i64) -> Option<i64> {
    plan.next(Timestamp::from_millis(after * 1000)).map(|at| {
        assert_eq!(at.millis() % 1000, 0);
        at.millis() / 1000
    })
}

/// Compares all fires of a window, and the answers from some instants between them.
fn compare(zone: &Zone, plan: &Plan, expected: &BTreeSet<i64>, from: i64, to: i64, draw: &mut Draw) {
    let case = || format!("{} in {} from {} to {}", plan.encode(), zone.name, stamp(from), stamp(to));
    let mut found = Vec::new();
    let mut after = from - 1;
    while let Some(at) = next(plan, after).filter(|at| *at <= to) {
        assert!(at > after, "{}: not increasing at {}", case(), stamp(at));
        found.push(at);
        after = at;
    }
    let expected_list: Vec<i64> = expected.iter().copied().collect();
    if found != expected_list {
        let show = |list: &[i64], other: &[i64]| -> Vec<String> {
            list.iter().filter(|at| !other.contains(at)).take(5).map(|at| stamp(*at).to_string()).collect()
        };
        panic!("{}: missing {:?}, extra {:?}", case(), show(&expected_list, &found), show(&found, &expected_list));
    }
    for _ in 0..4 {
        let after = from + draw.below(to - from);
        let wanted = expected.range(after + 1..).next().copied();
        let got = next(plan, after).filter(|at| *at <= to);
        assert_eq!(got, wanted, "{}: next({})", case(), stamp(after));
    }
}

#[test]
fn every_clock_change_of_every_zone() {
    const EXPRESSIONS_PER_CHANGE: usize = 16;
    let mut draw = Draw(2026);
    let (mut change_count, mut case_count, mut fire_count) = (0, 0, 0);
    let zones = zones();
    for zone in &zones {
        for &(at, before, after) in &zone.changes {
            change_count += 1;
            let local = jiff::tz::Offset::UTC.to_datetime(stamp(at + before.min(after)));
            // A margin on both sides, and now and then one of days, in which the short way of the search takes over.
            let margin = (before - after).abs() + if draw.below(16) == 0 { 50 * HOUR } else { 3 * HOUR };
            let (from, to) = (at - margin, at + margin);
            for _ in 0..EXPRESSIONS_PER_CHANGE {
                let (minute, hour) = (draw_minute(&mut draw), draw_hour(&mut draw, i64::from(local.hour())));
                let (day, month, weekday) = draw_days(&mut draw, local.date());
                let expression = format!("{minute} {hour} {day} {month} {weekday}");
                let (gap, fold) = draw_policy(&mut draw);
                let Some(plan) = resolve(&expression, &zone.name, gap, fold) else {
                    continue;
                };
                let expected = oracle(zone, &Text::read(&expression), gap, fold, from, to);
                compare(zone, &plan, &expected, from, to, &mut draw);
                assert_eq!(Plan::decode(&plan.encode()).as_ref(), Ok(&plan));
                case_count += 1;
                fire_count += expected.len();
            }
        }
    }
    println!("{} zones, {change_count} changes, {case_count} cases, {fire_count} fires", zones.len());
    assert!(change_count > 10_000 && case_count > 12 * change_count, "{change_count} changes, {case_count} cases");
    assert!(fire_count > 1_000_000, "too few fires to mean anything: {fire_count}");
}

#[test]
fn whole_years_of_sparse_expressions() {
    let mut draw = Draw(7);
    let zones = zones();
    let mut fire_count = 0;
    for _ in 0..200 {
        let zone = &zones[draw.below(zones.len() as i64) as usize];
        let from = (YEAR_1973 + draw.below(YEAR_2041 - YEAR_1973 - 500 * DAY)) / MINUTE * MINUTE;
        let to = from + 400 * DAY;
        let date = jiff::tz::Offset::UTC.to_datetime(stamp(from + draw.below(400) * DAY)).date();
        let (day, month, weekday) = draw_days(&mut draw, date);
        let expression = format!("{} {} {day} {month} {weekday}", draw.below(60), draw.below(4));
        let (gap, fold) = draw_policy(&mut draw);
        let Some(plan) = resolve(&expression, &zone.name, gap, fold) else {
            continue;
        };
        let expected = oracle(zone, &Text::read(&expression), gap, fold, from, to);
        compare(zone, &plan, &expected, from, to, &mut draw);
        fire_count += expected.len();
    }
    assert!(fire_count > 5000, "too few fires to mean anything: {fire_count}");
}

/// The oracle itself, on the cases that Debian's cron documents: forward, fixed jobs of the skipped minutes run at the
/// jump and wildcard jobs are not made up; back, only wildcard jobs run until the clock catches up.
#[test]
fn the_oracle_knows_the_rule_of_debian() {
    let zones = zones();
    let zone = zones.iter().find(|zone| zone.name == "America/New_York" || zone.name == "America/Detroit").unwrap();
    let (spring, fall) = (1_805_007_600, 1_793_512_800);
    let fires = |expression: &str, at: i64| -> Vec<i64> {
        let text = Text::read(expression);
        let found = oracle(zone, &text, DstGap::NextValid, DstFold::First, at - 2 * HOUR, at + 2 * HOUR);
        found.into_iter().map(|fire| (fire - at) / MINUTE).collect()
    };
    assert_eq!(fires("30 2 * * *", spring), [0]);
    assert_eq!(fires("*/30 2 * * *", spring), []);
    assert_eq!(fires("30 1 * * *", fall), [-30]);
    assert_eq!(fires("*/30 1 * * *", fall), [-60, -30, 0, 30]);
}
