//! Durations, and the one-string forms a user may type instead of a structured schedule.
//!
//! [`parse_text`] decides by the first word: `every`, `@every` and `rate(...)` are periods, `in` is a delay, `at` or a
//! leading date is an instant, and everything else is cron. Whatever it returns has been checked, so that a refusal
//! comes where the text was typed, with the position in that text.
//!
//! Durations are whole numbers with units, largest first (`1h30m`, `250ms`, `5 minutes`), or the ISO 8601 form of days
//! and smaller units (`PT1H30M`). Months and years are refused: they are not a number of milliseconds.

use super::cron;
use super::{DstFold, DstGap, HashSeed, Schedule, ScheduleError, quoted, zone};
use crate::time::Timestamp;

/// Reads a schedule from one string: cron of five or six fields, `@daily` and its like, `@every 90s`, `every 90s`,
/// `rate(5 minutes)`, `in 10m`, an RFC 3339 instant with or without `at`. `zone` applies to cron; empty means UTC.
pub fn parse_text(text: &str, zone: &str) -> Result<Schedule, ScheduleError> {
    let trimmed = text.trim_matches([' ', '\t']);
    let start = text.len() - text.trim_start_matches([' ', '\t']).len();
    if trimmed.is_empty() {
        return Err(ScheduleError::new("schedule_invalid", "an empty schedule")
            .at(0, text.len())
            .hint("such as 30 3 * * *, @daily, every 90s, in 10m, 2026-11-16T03:00:00Z"));
    }
    let parsed = parse_trimmed(trimmed, zone);
    parsed.map_err(|mut error| {
        error.position = error.position.map(|(from, to)| (from + start, to + start));
        error
    })
}

fn parse_trimmed(text: &str, zone: &str) -> Result<Schedule, ScheduleError> {
    if let Some(every) = every_alias(text) {
        return every;
    }
    let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let rest_at = text.len() - rest.len();
    match word.to_ascii_lowercase().as_str() {
        "every" => return every(rest, rest_at),
        "in" => {
            let delay_ms = duration_at(rest, rest_at)?;
            return Ok(Schedule::After { delay_ms });
        }
        "at" => return instant(rest, rest_at),
        _ if is_rate(text) => return rate(text),
        _ if looks_like_date(text) => return instant(text, 0),
        _ => {}
    }
    let zone = if zone.is_empty() { "UTC" } else { zone };
    let found = zone::find(zone)?;
    // Any job will do: whether an expression is valid does not depend on the values of its `H`.
    let seed = HashSeed { tenant: "", job: "" };
    cron::CronPlan::new(text, Some(seed), found.clone(), DstGap::default(), DstFold::default())?;
    Ok(Schedule::Cron {
        expression: text.to_owned(),
        zone: zone::name(&found).to_owned(),
        dst_gap: DstGap::default(),
        dst_fold: DstFold::default(),
    })
}

/// The schedule behind `@every d`, if that is what the text says.
pub(super) fn every_alias(text: &str) -> Option<Result<Schedule, ScheduleError>> {
    let trimmed = text.trim_start_matches([' ', '\t']);
    let word = trimmed.get(..6).filter(|word| word.eq_ignore_ascii_case("@every"))?;
    let rest = trimmed.strip_prefix(word)?;
    rest.starts_with([' ', '\t']).then(|| every(rest, text.len() - rest.len()))
}

fn every(text: &str, start: usize) -> Result<Schedule, ScheduleError> {
    let every_ms = duration_at(text, start)?;
    if every_ms == 0 || every_ms > super::DURATION_MS_MAX {
        let message = format!("{} is not a period", quoted(text.trim()));
        return Err(ScheduleError::new("every_invalid", message)
            .at(start, start + text.len())
            .hint("from 1ms to 100 years"));
    }
    Ok(Schedule::Every { every_ms, phase_ms: 0 })
}

fn is_rate(text: &str) -> bool {
    text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("rate("))
}

fn rate(text: &str) -> Result<Schedule, ScheduleError> {
    match text.get(5..).and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => every(inner, 5),
        None => Err(ScheduleError::new("every_invalid", "rate( without its closing parenthesis")
            .at(text.len(), text.len())
            .hint("such as rate(5 minutes)")),
    }
}

fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 4 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

fn instant(text: &str, start: usize) -> Result<Schedule, ScheduleError> {
    let refuse = |message: String| ScheduleError::new("at_invalid", message).at(start, start + text.len());
    let text = text.trim_matches([' ', '\t']);
    const HINT: &str = "RFC 3339 with Z or an offset, such as 2026-11-16T03:00:00Z or 2026-11-16T04:00:00+01:00";
    match Shape::of(text) {
        Shape::Instant => {}
        Shape::LeapSecond => return Err(refuse(format!("{} is a leap second", quoted(text))).hint("write :59")),
        Shape::Local => {
            return Err(refuse(format!("{} has no offset", quoted(text))).hint(format!("add Z or +01:00; {HINT}")));
        }
        Shape::Other => return Err(refuse(format!("{} is not an instant", quoted(text))).hint(HINT)),
    }
    let at: jiff::Timestamp =
        text.parse().map_err(|_| refuse(format!("{} is not an instant", quoted(text))).hint(HINT))?;
    let at = Timestamp::from_millis(at.as_millisecond());
    super::at_kind(at).map_err(|error| error.at(start, start + text.len()))?;
    Ok(Schedule::At { at })
}

/// What a text that should be an instant looks like, before its numbers are read.
enum Shape {
    Instant,
    LeapSecond,
    Local,
    Other,
}

impl Shape {
    /// The library reads more than RFC 3339, and reads `:60` as `:59`; so the form is checked here.
    fn of(text: &str) -> Shape {
        const PATTERN: &[u8] = b"dddd-dd-ddTdd:dd:dd";
        let matches = |text: &[u8], pattern: &[u8]| {
            text.len() == pattern.len()
                && text.iter().zip(pattern).all(|(byte, wanted)| match wanted {
                    b'd' => byte.is_ascii_digit(),
                    b'T' => matches!(byte, b'T' | b't' | b' '),
                    _ => byte == wanted,
                })
        };
        let bytes = text.as_bytes();
        let Some((head, mut tail)) = bytes.split_at_checked(PATTERN.len()) else {
            return if matches(bytes, &PATTERN[..16]) || matches(bytes, &PATTERN[..10]) {
                Shape::Local
            } else {
                Shape::Other
            };
        };
        if !matches(head, PATTERN) {
            return Shape::Other;
        }
        if let Some(fraction) = tail.strip_prefix(b".") {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || digits > 9 {
                return Shape::Other;
            }
            tail = &fraction[digits..];
        }
        let offset = tail.split_first();
        match offset {
            None => Shape::Local,
            _ if head.ends_with(b"60") => Shape::LeapSecond,
            Some((b'Z' | b'z', [])) => Shape::Instant,
            Some((b'+' | b'-', offset)) if matches(offset, b"dd:dd") => Shape::Instant,
            _ => Shape::Other,
        }
    }
}

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const WEEK_MS: u64 = 7 * DAY_MS;

/// Reads a duration such as `90s`, `1h30m`, `250ms`, `2d`, `5 minutes` or `PT1H30M`.
pub fn parse_duration_ms(text: &str) -> Result<u64, ScheduleError> {
    duration_at(text, 0)
}

/// Writes a duration in the shortest form that [`parse_duration_ms`] reads: `1h30m`, `250ms`, `0s`.
pub fn format_duration_ms(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    let mut rest = ms;
    for (unit_ms, unit) in [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m"), (SECOND_MS, "s"), (1, "ms")] {
        if rest >= unit_ms {
            text.push_str(&(rest / unit_ms).to_string());
            text.push_str(unit);
            rest %= unit_ms;
        }
    }
    text
}

/// Reads a duration that starts at a byte of a longer text, for the position of a refusal.
fn duration_at(text: &str, start: usize) -> Result<u64, ScheduleError> {
    let lead = text.len() - text.trim_start_matches([' ', '\t']).len();
    let (text, start) = (text.trim_matches([' ', '\t']), start + lead);
    let refuse = |message: String, from: usize, to: usize| {
        ScheduleError::new("duration_invalid", message).at(start + from, start + to)
    };
    if text.is_empty() {
        return Err(refuse("an empty duration".to_owned(), 0, 0).hint("such as 90s, 1h30m, 250ms, 2d"));
    }
    let parsed = match text.strip_prefix(['P', 'p']) {
        Some(iso) => read_iso(iso).map_err(|error| error.moved(1)),
        None => read_units(text, unit_ms),
    };
    parsed.map_err(|DurationError { at, message, hint }| {
        let error = refuse(format!("{message} in the duration {}", quoted(text)), at, text.len());
        error.hint(hint)
    })
}

struct DurationError {
    at: usize,
    message: String,
    hint: &'static str,
}

impl DurationError {
    fn new(at: usize, message: impl Into<String>, hint: &'static str) -> Self {
        Self { at, message: message.into(), hint }
    }

    fn moved(mut self, by: usize) -> Self {
        self.at += by;
        self
    }
}

/// The part of an ISO 8601 duration after `P`.
fn read_iso(text: &str) -> Result<u64, DurationError> {
    const HINT: &str = "such as PT1H30M or P2D; months and years are not a number of milliseconds";
    let upper = text.to_ascii_uppercase();
    let (date, time) = match upper.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, Some(time)),
        Some(_) => return Err(DurationError::new(0, "nothing after T", HINT)),
        None => (upper.as_str(), None),
    };
    if date.is_empty() && time.is_none() {
        return Err(DurationError::new(0, "nothing after P", HINT));
    }
    let date_ms = match date {
        "" => 0,
        _ => read_units(date, |unit| match unit {
            "W" => Some(WEEK_MS),
            "D" => Some(DAY_MS),
            _ => None,
        })
        .map_err(|error| DurationError { hint: HINT, ..error })?,
    };
    let time_ms = match time {
        None => 0,
        Some(time) => read_units(time, |unit| match unit {
            "H" => Some(HOUR_MS),
            "M" => Some(MINUTE_MS),
            "S" => Some(SECOND_MS),
            _ => None,
        })
        .map_err(|error| DurationError { hint: HINT, ..error }.moved(date.len() + 1))?,
    };
    date_ms.checked_add(time_ms).ok_or_else(|| DurationError::new(0, "too large a number", HINT))
}

/// The milliseconds of a unit as people write it.
fn unit_ms(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND_MS,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE_MS,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR_MS,
        "d" | "day" | "days" => DAY_MS,
        "w" | "week" | "weeks" => WEEK_MS,
        _ => return None,
    })
}

/// Pairs of number and unit, each unit smaller than the one before.
fn read_units(text: &str, unit_ms: impl Fn(&str) -> Option<u64>) -> Result<u64, DurationError> {
    const UNITS: &str = "whole numbers with ms, s, m, h, d or w, such as 90s, 1h30m, 250ms";
    let (mut total, mut smallest, mut at) = (0u64, u64::MAX, 0);
    while at < text.len() {
        let rest = &text[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(DurationError::new(at, "a number is missing", UNITS));
        }
        let too_large = || DurationError::new(at, "too large a number", "at most 584 million years");
        let number: u64 = rest[..digits].parse().map_err(|_| too_large())?;
        let after = rest[digits..].trim_start_matches([' ', '\t']);
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit = &after[..letters];
        let unit_at = text.len() - after.len();
        if unit.is_empty() {
            return Err(DurationError::new(unit_at, "a unit is missing", UNITS));
        }
        let Some(unit_ms) = unit_ms(unit) else {
            return Err(DurationError::new(unit_at, format!("unknown unit {}", quoted(unit)), UNITS));
        };
        if unit_ms >= smallest {
            return Err(DurationError::new(unit_at, "units out of order", "the largest unit first, each once"));
        }
        smallest = unit_ms;
        total = number.checked_mul(unit_ms).and_then(|ms| total.checked_add(ms)).ok_or_else(too_large)?;
        let after = &after[letters..];
        at = text.len() - after.trim_start_matches([' ', '\t']).len();
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("5 minutes", 300_000),
            ("1 hour 1 second", 3_601_000),
            ("0s", 0),
            ("PT1H30M", 5_400_000),
            ("P1DT1S", 86_401_000),
            ("p2w", 1_209_600_000),
            (" 1m ", 60_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
        for (text, wrong) in [
            ("", ""),
            ("90", ""),
            ("s", "s"),
            ("-5s", "-5s"),
            ("1.5h", ".5h"),
            ("1h30", ""),
            ("30m1h", "h"),
            ("1h1h", "h"),
            ("5 fortnights", "fortnights"),
            ("5 \u{1f570}", "\u{1f570}"),
            ("P1M", "M"),
            ("P1Y", "Y"),
            ("PT", "T"),
            ("P", ""),
            ("PT1D", "D"),
            ("18446744073709551616ms", "18446744073709551616ms"),
            ("18446744073709551615s", "18446744073709551615s"),
            ("9999999999999999w", "9999999999999999w"),
        ] {
            let error = parse_duration_ms(text).unwrap_err();
            let (start, end) = error.position.unwrap();
            assert_eq!(error.code, "duration_invalid");
            assert_eq!(text.get(start..end), Some(wrong), "{text}: {error:?}");
            assert!(error.hint.is_some());
        }
    }

    #[test]
    fn durations_round_trip() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (86_400_000, "1d"),
            (90_061_001, "1d1h1m1s1ms"),
        ] {
            assert_eq!(format_duration_ms(ms), text);
        }
        for ms in [1, 999, 1000, 59_999, 60_000, u64::MAX, u64::MAX / 7, 604_800_000] {
            assert_eq!(parse_duration_ms(&format_duration_ms(ms)), Ok(ms));
        }
    }

    #[test]
    fn one_string_forms() {
        let every = |every_ms| Schedule::Every { every_ms, phase_ms: 0 };
        let at = |text: &str| Schedule::At { at: text.parse().unwrap() };
        for (text, expected) in [
            ("@every 90s", every(90_000)),
            ("every 90s", every(90_000)),
            ("Every 5 minutes", every(300_000)),
            ("rate(5 minutes)", every(300_000)),
            ("rate(1 day)", every(86_400_000)),
            ("in 10m", Schedule::After { delay_ms: 600_000 }),
            ("2026-11-16T03:00:00Z", at("2026-11-16T03:00:00Z")),
            ("2026-11-16 03:00:00.5+01:00", at("2026-11-16T02:00:00.5Z")),
            ("at 2026-11-16T03:00:00z", at("2026-11-16T03:00:00Z")),
        ] {
            assert_eq!(parse_text(text, "").as_ref(), Ok(&expected), "{text}");
        }
        for text in ["30 3 * * *", "@daily", "0 30 3 * * MON", "H H * * *"] {
            let Ok(Schedule::Cron { expression, zone, .. }) = parse_text(&format!(" {text}\t"), "europe/berlin") else {
                panic!("{text} is cron");
            };
            assert_eq!((expression.as_str(), zone.as_str()), (text, "Europe/Berlin"));
        }
    }

    #[test]
    fn one_string_refusals() {
        for (text, code, wrong) in [
            ("", "schedule_invalid", ""),
            ("  ", "schedule_invalid", "  "),
            ("every", "duration_invalid", ""),
            ("every 0s", "every_invalid", "0s"),
            ("every 5 parsecs", "duration_invalid", "parsecs"),
            ("@every 99999999w", "every_invalid", " 99999999w"),
            ("rate(5 minutes", "every_invalid", ""),
            ("rate(5)", "duration_invalid", ""),
            ("in", "duration_invalid", ""),
            ("in  ten minutes", "duration_invalid", "ten minutes"),
            ("at noon", "at_invalid", "noon"),
            ("2026-11-16T23:59:60Z", "at_invalid", "2026-11-16T23:59:60Z"),
            ("2016-12-31T23:59:60.5+00:00", "at_invalid", "2016-12-31T23:59:60.5+00:00"),
            ("2026-11-16T03:00:00", "at_invalid", "2026-11-16T03:00:00"),
            ("2026-11-16", "at_invalid", "2026-11-16"),
            ("2026-02-30T00:00:00Z", "at_invalid", "2026-02-30T00:00:00Z"),
            ("2026-11-16T24:00:00Z", "at_invalid", "2026-11-16T24:00:00Z"),
            ("2026-11-16T03:00:00Z[UTC]", "at_invalid", "2026-11-16T03:00:00Z[UTC]"),
            ("1969-12-31T23:59:59Z", "at_invalid", "1969-12-31T23:59:59Z"),
            ("  61 * * * *", "cron_invalid", "61"),
            ("0 0 30 2 *", "cron_never_fires", "0 0 30 2 *"),
        ] {
            let error = parse_text(text, "UTC").unwrap_err();
            assert_eq!(error.code, code, "{text}: {error:?}");
            let (start, end) = error.position.unwrap();
            assert_eq!(text.get(start..end), Some(wrong), "{text}: {error:?}");
            assert!(error.hint.is_some() || code == "at_invalid", "{text}");
        }
        assert_eq!(parse_text("* * * * *", "Europe/Berln").unwrap_err().code, "zone_unknown");
    }
}
