//! Instants, rates and shares as people type them.

use crate::clock;
use campanile_model::Timestamp;
use campanile_model::schedule::{Schedule, parse_duration_ms, parse_text};
use jiff::tz::TimeZone;

/// What `instant` reads, for the help.
pub const FORMS: &str = "2026-11-14T02:00:00Z, '2026-11-14 02:00 Asia/Kolkata', 2026-11-14, -2h or now";

/// An instant: RFC 3339, a date or wall-clock time with or without a zone (UTC then), a distance from now, or `now`.
pub fn instant(text: &str) -> Result<Timestamp, String> {
    read(text.trim(), clock::now())
}

/// The same for what is to come, where a distance needs no sign: `2h` is in two hours.
pub fn future(text: &str) -> Result<Timestamp, String> {
    match parse_duration_ms(text) {
        Ok(ms) => Ok(moved(clock::now(), ms, 1)),
        Err(_) => instant(text),
    }
}

fn read(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Some((sign, distance)) = [(-1, '-'), (1, '+')].iter().find_map(|&(s, c)| Some((s, text.strip_prefix(c)?))) {
        return match parse_duration_ms(distance) {
            Ok(ms) => Ok(moved(now, ms, sign)),
            Err(error) => Err(format!("{error}; a distance from now is such as -2h or +30m")),
        };
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Some(at) = wall_clock(text, &TimeZone::UTC) {
        return Ok(at);
    }
    // The last word may be a zone.
    if let Some((local, name)) = text.rsplit_once(' ')
        && wall_clock(local, &TimeZone::UTC).is_some()
    {
        return wall_clock(local, &zone(name)?).ok_or_else(|| format!("`{local}` does not exist in {name}"));
    }
    Err(format!("`{text}` is not an instant; such as {FORMS}"))
}

fn moved(now: Timestamp, ms: u64, sign: i64) -> Timestamp {
    now.saturating_add_ms(sign * i64::try_from(ms).unwrap_or(i64::MAX))
}

fn zone(name: &str) -> Result<TimeZone, String> {
    // The same names and hints as in schedules.
    match parse_text("@daily", name) {
        Ok(Schedule::Cron { zone, .. }) => TimeZone::get(&zone).map_err(|error| error.to_string()),
        Ok(_) => Ok(TimeZone::UTC),
        Err(error) => Err(match error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message,
        }),
    }
}

/// A date, or a date and a time, on a wall clock.
fn wall_clock(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    // An offset that was not understood must not be taken for local time.
    if text.contains(['Z', 'z', '[', '+']) {
        return None;
    }
    let date = || text.parse::<jiff::civil::Date>().map(|date| date.at(0, 0, 0, 0));
    let civil = if text.contains(':') { text.parse::<jiff::civil::DateTime>() } else { date() };
    let at = zone.to_zoned(civil.ok()?).ok()?;
    Some(Timestamp::from_millis(at.timestamp().as_millisecond()))
}

/// A rate such as `50/s`, `10/m` or `100/h`, per second.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a rate; such as 50/s, 10/m or 100/h");
    let (count, per) = text.trim().split_once('/').unwrap_or((text.trim(), "s"));
    let count: f64 = count.trim().parse().map_err(|_| wrong())?;
    let seconds = match per.trim() {
        "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3_600.0,
        _ => return Err(wrong()),
    };
    if count.is_finite() && count > 0.0 { Ok(count / seconds) } else { Err(wrong()) }
}

/// A rate as it is shown.
pub fn show_rate(per_second: f64) -> String {
    let number = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match per_second {
        rate if rate >= 1.0 => format!("{}/s", number(rate)),
        rate if rate * 60.0 >= 1.0 => format!("{}/m", number(rate * 60.0)),
        rate => format!("{}/h", number(rate * 3_600.0)),
    }
}

/// A share such as `20%`, in percent.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("`{text}` is not a share; such as 20%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_people_write_them() {
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        for (text, at) in [
            ("now", "2026-11-16T12:00:00Z"),
            ("-2h", "2026-11-16T10:00:00Z"),
            ("+1h30m", "2026-11-16T13:30:00Z"),
            ("2026-11-14T02:00:00Z", "2026-11-14T02:00:00Z"),
            ("2026-11-14T02:00:00+05:30", "2026-11-13T20:30:00Z"),
            ("2026-11-14 02:00 Asia/Kolkata", "2026-11-13T20:30:00Z"),
            ("2026-11-14T02:00:30 Europe/Berlin", "2026-11-14T01:00:30Z"),
            ("2026-11-14 02:00", "2026-11-14T02:00:00Z"),
            ("2026-11-14", "2026-11-14T00:00:00Z"),
            ("2026-11-14 Asia/Kolkata", "2026-11-13T18:30:00Z"),
        ] {
            assert_eq!(read(text, now), Ok(at.parse().unwrap()), "{text}");
        }
        for text in
            ["", "yesterday", "-soon", "2026-11-14 02:00 Mars/Olympus", "2026-13-14", "02:00", "2026-11-14T25:00"]
        {
            assert!(read(text, now).is_err(), "{text}");
        }
        assert!(read("2026-11-14 02:00 Asia/Kolkatta", now).unwrap_err().contains("Asia/Kolkata"));
    }

    #[test]
    fn rates_and_shares_are_read_and_shown() {
        for (text, per_second, shown) in [
            ("50/s", 50.0, "50/s"),
            ("50", 50.0, "50/s"),
            ("30/m", 0.5, "30/m"),
            ("1.5/s", 1.5, "1.5/s"),
            ("36/h", 0.01, "36/h"),
        ] {
            assert_eq!(rate(text), Ok(per_second));
            assert_eq!(show_rate(per_second), shown);
        }
        for text in ["", "x/s", "0/s", "-1/s", "5/fortnight", "inf/s", "NaN"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!((percent("20%"), percent("7.5")), (Ok(20.0), Ok(7.5)));
        assert!(percent("120%").is_err() && percent("some").is_err());
    }
}
