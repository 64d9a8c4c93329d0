//! Instants and the injected clock.
//!
//! Every instant in Campanile is a `Timestamp`: whole milliseconds since the Unix epoch, UTC. Zones exist only inside
//! `schedule`. Nobody below the binary reads the machine's clock: the engine asks the `Clock` it was given, so
//! that tests and the simulation own time.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds since the Unix epoch, UTC.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant; sorts before every real one.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest instant; sorts after every real one.
    pub const MAX: Timestamp = Timestamp(i64::MAX);
    /// The last instant that users may name, two days before the year 10000: every zone can still show it.
    pub const LATEST: Timestamp = Timestamp(253_402_207_200_000);

    /// The instant that is `millis` after the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This instant moved by `ms`, held at the ends of the range.
    pub const fn saturating_add_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// How many milliseconds this instant lies after `earlier`; zero when it does not.
    pub const fn ms_since(self, earlier: Timestamp) -> u64 {
        if self.0 > earlier.0 { self.0.abs_diff(earlier.0) } else { 0 }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// Text that is not an RFC 3339 instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 instant such as 2026-11-16T02:00:00Z")]
pub struct InvalidTimestamp(pub String);

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// Reads RFC 3339. Leap seconds do not exist for us, so `:60` is refused rather than folded into the next minute.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let refused = || InvalidTimestamp(text.chars().take(64).collect());
        if text.len() > 64 || text.as_bytes().get(17..19) == Some(b"60") {
            return Err(refused());
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| refused())?;
        let timestamp = Timestamp(parsed.as_millisecond());
        if timestamp > Timestamp::LATEST { Err(refused()) } else { Ok(timestamp) }
    }
}

/// The clock that a component was given.
///
/// `now` may jump either way, as wall clocks do; `monotonic_ms` never goes back and is what waits are measured by.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    /// Milliseconds since some fixed moment; never decreases.
    fn monotonic_ms(&self) -> u64;
    /// Waits `ms` milliseconds of monotonic time.
    async fn sleep_ms(&self, ms: u64);
}

/// How many milliseconds to add to this machine's clock to get the one that counts, that of a shared database. Zero until it
/// was measured. Clones share the value: whoever measures it sets it, the node's `Clock` adds it.
#[derive(Clone, Debug, Default)]
pub struct Offset(Arc<AtomicI64>);

impl Offset {
    /// What to add, in milliseconds.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets what to add.
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_round_trip_as_rfc_3339() {
        for text in ["1970-01-01T00:00:00Z", "2026-11-16T02:00:00.123Z", "9999-12-30T22:00:00Z"] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn leap_seconds_and_junk_are_refused() {
        for text in
            ["2016-12-31T23:59:60Z", "", "tomorrow", "2026-13-01T00:00:00Z", "2026-11-16", "9999-12-31T00:00:00Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn distance_never_goes_negative() {
        assert_eq!(Timestamp::from_millis(5).ms_since(Timestamp::from_millis(9)), 0);
        assert_eq!(Timestamp::MAX.ms_since(Timestamp::MIN), u64::MAX);
    }
}
