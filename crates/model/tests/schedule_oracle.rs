//! `Plan::next` against a slow [`oracle`] that shares no code with it, over every clock change of every zone.
//!
//! Expressions and policies are drawn by a fixed seed, with times near the change, so that each run is the same and each
//! clock change from 1973 to 2040 is covered.

mod oracle;

use std::collections::BTreeSet;

use campanile_model::schedule::{DstFold, DstGap, HashSeed, Plan, Schedule};
use campanile_model::time::Timestamp;
use jiff::civil::Date;
use oracle::{DAY, HOUR, MINUTE, Text, YEAR_1973, YEAR_2041, Zone, oracle, stamp, zones};

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
