//! Zone names, and the only two questions the search asks of a zone.
//!
//! Zones come from the database inside the binary and from nowhere else, so that every node of one version agrees,
//! whatever the operating system has installed. Names are IANA names, found without regard to case and kept in their
//! canonical spelling; an unknown one is refused with the nearest names.
//!
//! The search relies on one property of the database: since 1970, two transitions of a zone are at least
//! [`SEGMENT_SECONDS_MIN`] apart and none is larger than [`SHIFT_SECONDS_MAX`]. A test checks it for every zone, so an
//! update of the database that breaks it cannot pass unnoticed.

use std::sync::OnceLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use xxhash_rust::xxh3::Xxh3;

use super::{SECOND_MAX, SECOND_MIN, ScheduleError, quoted};

/// No transition since 1970 follows another one sooner than this (the record is 5 days and 2 hours, St. John's 2011).
pub(super) const SEGMENT_SECONDS_MIN: i64 = 5 * 86_400;
/// More than any transition moves the clock (the record is 24 hours, Apia 2011).
pub(super) const SHIFT_SECONDS_MAX: i64 = 25 * 3600;
/// More than any zone differs from UTC.
pub(super) const OFFSET_SECONDS_MAX: i64 = 16 * 3600;

/// The zone of that name, or a refusal that lists the nearest names.
pub(super) fn find(name: &str) -> Result<TimeZone, ScheduleError> {
    match TimeZoneDatabase::bundled().get(name) {
        // `Etc/Unknown` is a zone of the library without a name: it would not survive a round trip.
        Ok(zone) if zone.iana_name().is_some() => Ok(zone),
        _ => {
            let error = ScheduleError::new("zone_unknown", format!("unknown zone {}", quoted(name)));
            let near = nearest(name);
            if near.is_empty() {
                return Err(error.hint("an IANA name such as Europe/Berlin, or UTC"));
            }
            Err(error.hint(format!("did you mean {}?", near.join(" or "))))
        }
    }
}

/// The canonical name of a zone that [`find`] returned.
pub(super) fn name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// All zone names of the database in the binary, in alphabetical order.
pub fn zone_names() -> Vec<String> {
    let mut names: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    names.sort_unstable();
    names
}

/// The version of the zone database in the binary: a fingerprint of every zone's transitions from 1970 to 2100.
///
/// The library does not tell the release name. The fingerprint serves the purpose as well: it changes exactly when a
/// job could fire at another time. Computed once (some ten milliseconds) and remembered.
pub fn zone_database_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let until = second(4_102_444_800);
        let mut hash = Xxh3::new();
        for name in zone_names() {
            hash.update(name.as_bytes());
            let Ok(zone) = TimeZoneDatabase::bundled().get(&name) else {
                continue;
            };
            hash.update(&zone.to_offset(second(SECOND_MIN)).seconds().to_le_bytes());
            for change in zone.following(second(SECOND_MIN)).take_while(|change| change.timestamp() < until) {
                hash.update(&change.timestamp().as_second().to_le_bytes());
                hash.update(&change.offset().seconds().to_le_bytes());
            }
        }
        format!("tzdb-{:016x}", hash.digest())
    })
}

/// A second as the library's instant, kept inside its range.
pub(super) fn second(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second.clamp(-SECOND_MAX, SECOND_MAX)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// Seconds east of UTC at an instant.
pub(super) fn offset(zone: &TimeZone, at: i64) -> i64 {
    i64::from(zone.to_offset(second(at)).seconds())
}

/// The one offset the zone has had since 1970, if there is only one: such zones need no look-up at all.
pub(super) fn constant_offset(zone: &TimeZone) -> Option<i64> {
    let start = SECOND_MIN - 2 * SHIFT_SECONDS_MAX;
    zone.following(second(start)).next().is_none().then(|| offset(zone, SECOND_MIN))
}

/// A stretch of time with one offset, and the changes at its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Seconds east of UTC throughout.
    pub offset: i64,
    /// The first second, and the offset before it; only if it is so recent that its change still matters.
    pub start: Option<(i64, i64)>,
    /// The first second after it, and the offset from there on.
    pub end: Option<(i64, i64)>,
}

/// The segment that contains an instant.
pub(super) fn segment(zone: &TimeZone, at: i64) -> Segment {
    // Never `preceding`: after the last listed transition of a zone it answers from the yearly rule alone and misses
    // the listed one (jiff 0.2.39, America/Metlakatla, 2019-01-20).
    let mut changes = zone.following(second(at - SHIFT_SECONDS_MAX)).map(|change| change.timestamp().as_second());
    let first = changes.next();
    let start = first.filter(|start| *start <= at);
    let end = if start.is_some() { changes.next() } else { first };
    Segment {
        offset: offset(zone, at),
        start: start.map(|start| (start, offset(zone, start - 1))),
        end: end.map(|end| (end, offset(zone, end))),
    }
}

/// Up to three zone names that look like `name`: the same city, or few different letters.
fn nearest(name: &str) -> Vec<String> {
    const LENGTH_MAX: usize = 40;
    const SHOWN_MAX: usize = 3;
    let wanted: String = name.trim().to_ascii_lowercase().replace(' ', "_");
    if wanted.is_empty() || wanted.len() > LENGTH_MAX {
        return Vec::new();
    }
    let wanted_city = city(&wanted);
    let mut scored: Vec<(usize, String)> = zone_names()
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_ascii_lowercase();
            // Whoever writes `Berlin` or `Germany/Berlin` means the city; the continent is the part people misremember.
            let by_city = edit_distance(wanted_city, city(&lower)) + usize::from(lower.contains('/'));
            let score = edit_distance(&wanted, &lower).min(by_city);
            (score <= 1 + wanted.len() / 4).then_some((score, candidate))
        })
        .collect();
    scored.sort();
    scored.truncate(SHOWN_MAX);
    scored.into_iter().map(|(_, name)| name).collect()
}

fn city(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The number of bytes to insert, delete or replace between two short texts.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_since_1970_are_far_apart_and_small() {
        for name in zone_names() {
            let zone = find(&name).unwrap();
            let start = SECOND_MIN - 2 * SHIFT_SECONDS_MAX;
            let (mut at, mut before) = (i64::MIN / 2, offset(&zone, start));
            let (mut lowest, mut highest) = (before, before);
            for change in zone.following(second(start)).take_while(|c| c.timestamp() < second(7_258_118_400)) {
                let (now, after) = (change.timestamp().as_second(), i64::from(change.offset().seconds()));
                assert!(now - at >= SEGMENT_SECONDS_MIN, "{name}: {now} follows {at}");
                assert!((after - before).abs() < SHIFT_SECONDS_MAX, "{name}: {now} moves the clock too far");
                assert!(after.abs() < OFFSET_SECONDS_MAX, "{name}: {now} is too far from UTC");
                (at, before) = (now, after);
                (lowest, highest) = (lowest.min(after), highest.max(after));
            }
            assert!(highest - lowest <= SHIFT_SECONDS_MAX, "{name}: offsets from {lowest} to {highest}");
        }
    }

    #[test]
    fn unknown_zones_are_refused_with_the_nearest() {
        for (wrong, right) in [
            ("Europe/Berln", "Europe/Berlin"),
            ("Berlin", "Europe/Berlin"),
            ("Germany/Berlin", "Europe/Berlin"),
            ("America/NewYork", "America/New_York"),
            ("new york", "America/New_York"),
            ("Asia/Calcuta", "Asia/Calcutta"),
            ("UCT1", "UCT"),
        ] {
            let error = find(wrong).unwrap_err();
            assert_eq!(error.code, "zone_unknown");
            assert!(error.hint.as_deref().unwrap_or("").contains(right), "{wrong}: {error:?}");
        }
        for wrong in ["", " ", "Etc/Unknown", "+02:00", "localtime", "../../etc/passwd", "\u{1f570}", &"x".repeat(9999)]
        {
            assert_eq!(find(wrong).unwrap_err().code, "zone_unknown", "{wrong}");
        }
    }

    #[test]
    fn names_are_canonical() {
        assert_eq!(name(&find("america/new_york").unwrap()), "America/New_York");
        assert_eq!(name(&find("utc").unwrap()), "UTC");
        assert!(zone_names().len() > 500);
        assert_eq!(zone_database_version(), zone_database_version());
        assert!(zone_database_version().starts_with("tzdb-"));
    }

    #[test]
    fn segments_have_both_ends() {
        let zone = find("America/New_York").unwrap();
        let spring = 1_805_007_600; // 2027-03-14T07:00:00Z
        let before = segment(&zone, spring - 1);
        assert_eq!((before.offset, before.end), (-5 * 3600, Some((spring, -4 * 3600))));
        let after = segment(&zone, spring);
        assert_eq!((after.offset, after.start), (-4 * 3600, Some((spring, -5 * 3600))));
        assert_eq!(constant_offset(&find("UTC").unwrap()), Some(0));
        assert_eq!(constant_offset(&find("Asia/Tokyo").unwrap()), Some(9 * 3600));
        assert_eq!(constant_offset(&zone), None);
    }
}
