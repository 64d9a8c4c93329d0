//! A cron schedule as an English sentence: `At 01:30 every day, New York time.`
//!
//! The sentence is made from the bits, not from the text: it says what will happen, whatever way it was written. Time
//! of day first, then days, then months, then the zone; a part that restricts nothing is left out.

use super::cron::{CronPlan, Fields};
use super::zone;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Up to so many times of day are written out one by one.
const TIMES_SHOWN_MAX: usize = 4;
/// Longer lists are cut in the middle.
const LIST_SHOWN_MAX: usize = 8;

const ALL_DAYS: u32 = 0xffff_fffe;
const ALL_WEEKDAYS: u8 = 0x7f;

pub(super) fn sentence(plan: &CronPlan) -> String {
    let fields = &plan.fields;
    let time = time_words(fields);
    let all_hours = fields.hours.count_ones() == 24;
    let mut words = time;
    match day_words(fields) {
        Some(days) => words.push_str(&format!(" {days}")),
        None if !all_hours => words.push_str(" every day"),
        None => {}
    }
    if fields.months.count_ones() < 12 {
        let months = values(u64::from(fields.months));
        words.push_str(&format!(" in {}", name_list(&months, |month| MONTHS[month - 1], "and")));
    }
    format!("{words}, {}.", zone_words(zone::name(&plan.zone)))
}

/// `New York time`, or the name itself for zones that are no place.
fn zone_words(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((area, city)) if area != "Etc" => format!("{} time", city.replace('_', " ")),
        _ => name.to_owned(),
    }
}

fn time_words(fields: &Fields) -> String {
    let (seconds, minutes) = (values(fields.seconds), values(fields.minutes));
    let hours = values(u64::from(fields.hours));
    if seconds.len() == 1 && minutes.len() * hours.len() <= TIMES_SHOWN_MAX {
        let mut times = Vec::new();
        for hour in &hours {
            for minute in &minutes {
                times.push(match seconds[0] {
                    0 => format!("{hour:02}:{minute:02}"),
                    second => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
        return format!("At {}", joined(&times, "and"));
    }
    let mut parts = Vec::new();
    if seconds != [0] {
        parts.push(unit_words(&seconds, 60, "second", true));
    }
    parts.push(unit_words(&minutes, 60, "minute", parts.is_empty()));
    parts.push(unit_words(&hours, 24, "hour", false));
    // "Every minute of every hour" says no more than "every minute".
    while parts.len() > 1 && parts[parts.len() - 2].starts_with("every ") && is_every_one(&parts[parts.len() - 1]) {
        parts.pop();
    }
    let text = parts.join(" of ");
    match text.strip_prefix("every ") {
        Some(rest) => format!("Every {rest}"),
        None => format!("At {text}"),
    }
}

fn is_every_one(part: &str) -> bool {
    matches!(part, "every minute" | "every hour")
}

/// The values of a unit: `every minute`, `every 5 minutes`, `every 2nd hour`, `minute 5`, `hours 9-17`.
fn unit_words(values: &[usize], size: usize, unit: &str, leads: bool) -> String {
    if values.len() == size {
        return format!("every {unit}");
    }
    if let [one] = values {
        return format!("{unit} {one}");
    }
    let step = values[1] - values[0];
    let even = values[0] == 0 && step * values.len() == size && values.windows(2).all(|pair| pair[1] - pair[0] == step);
    match (even, leads) {
        (true, true) => format!("every {step} {unit}s"),
        (true, false) => format!("every {} {unit}", ordinal(step)),
        (false, _) => format!("{unit}s {}", number_list(values)),
    }
}

fn ordinal(n: usize) -> String {
    let suffix = match (n % 10, n % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// The days that are meant, or nothing for every day.
fn day_words(fields: &Fields) -> Option<String> {
    let any_day = fields.days == ALL_DAYS;
    let any_weekday = fields.weekdays == ALL_WEEKDAYS;
    match (any_day, any_weekday, fields.days_and) {
        (true, true, _) => None,
        (true, false, true) => Some(format!("on {}", weekday_words(fields, "and"))),
        (false, true, true) => Some(format!("on {}", month_day_words(fields, "and"))),
        (false, false, true) => {
            Some(format!("on {} if it is {}", month_day_words(fields, "or"), weekday_words(fields, "or")))
        }
        (false, false, false) => {
            Some(format!("on {} or on {}", month_day_words(fields, "and"), weekday_words(fields, "and")))
        }
        // Either may match, and one of them always does.
        (_, _, false) => None,
    }
}

fn month_day_words(fields: &Fields, last_joint: &str) -> String {
    let mut parts = Vec::new();
    let days = values(u64::from(fields.days));
    match days.len() {
        0 => {}
        1 => parts.push(format!("day {} of the month", days[0])),
        _ => parts.push(format!("days {} of the month", number_list(&days))),
    }
    for day in values(u64::from(fields.days_nearest)) {
        parts.push(format!("the weekday nearest to day {day}"));
    }
    if fields.last_day {
        parts.push("the last day of the month".to_owned());
    }
    if fields.last_weekday {
        parts.push("the last weekday of the month".to_owned());
    }
    joined(&parts, last_joint)
}

fn weekday_words(fields: &Fields, last_joint: &str) -> String {
    const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
    let mut parts = Vec::new();
    let days = values(u64::from(fields.weekdays));
    if !days.is_empty() {
        parts.push(name_list(&days, |day| WEEKDAYS[day], last_joint));
    }
    for (nth, weekdays) in NTH.iter().zip(fields.weekdays_nth) {
        for day in values(u64::from(weekdays)) {
            parts.push(format!("the {nth} {} of the month", WEEKDAYS[day]));
        }
    }
    for day in values(u64::from(fields.weekdays_last)) {
        parts.push(format!("the last {} of the month", WEEKDAYS[day]));
    }
    joined(&parts, last_joint)
}

/// The set bits of a mask, ascending.
pub(super) fn values(bits: u64) -> Vec<usize> {
    (0..64).filter(|bit| bits >> bit & 1 == 1).collect()
}

/// Ascending values as runs of three or more and single ones.
fn runs(values: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for run in values.chunk_by(|a, b| a + 1 == *b) {
        match run {
            [first, _, .., last] => runs.push((*first, *last)),
            _ => runs.extend(run.iter().map(|value| (*value, *value))),
        }
    }
    runs
}

fn number_list(values: &[usize]) -> String {
    let items: Vec<String> = runs(values)
        .into_iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") })
        .collect();
    if items.len() > LIST_SHOWN_MAX {
        let (head, last) = (&items[..3], &items[items.len() - 1]);
        return format!("{}, ..., {last}", head.join(", "));
    }
    joined(&items, "and")
}

fn name_list(values: &[usize], name: impl Fn(usize) -> &'static str, last_joint: &str) -> String {
    let items: Vec<String> = runs(values)
        .into_iter()
        .map(|(from, to)| if from == to { name(from).to_owned() } else { format!("{} to {}", name(from), name(to)) })
        .collect();
    joined(&items, last_joint)
}

/// `a`, `a and b`, `a, b and c`.
fn joined(items: &[String], last_joint: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} {last_joint} {last}", head.join(", ")),
    }
}
