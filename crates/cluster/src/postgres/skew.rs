//! How far this machine's clock is from the database's: an estimate from the beats, without any I/O.
//!
//! A beat brings the database's clock, read at some moment between its start and its end: so it is known to half a
//! round trip, and the shortest of the last round trips knows best. A sample that no older one can agree with means
//! that a clock was set: then the older ones are worth nothing.

use std::collections::VecDeque;

/// A clock that is further off takes no part in firing.
pub const OFF_MS: u64 = 500;
/// Within this it takes part again.
const BACK_MS: u64 = 400;
/// How many samples are remembered.
const SAMPLES_MAX: usize = 8;
/// What two samples may differ by beyond their round trips: whole milliseconds, and clocks that drift.
const DRIFT_MS: u64 = 3;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What to add to our clock to get the database's.
    pub offset_ms: i64,
    /// How long the question took.
    pub round_trip_ms: u64,
}

impl Sample {
    /// Of a question whose answer carried the instant `database`, all by wall clocks; `round_trip_ms` by the
    /// monotonic one. `None` if our clock was set in between.
    pub fn new(sent: i64, received: i64, database: i64, round_trip_ms: u64) -> Option<Self> {
        let passed = received.saturating_sub(sent);
        if passed.abs_diff(i64::try_from(round_trip_ms).unwrap_or(i64::MAX)) > DRIFT_MS {
            return None;
        }
        Some(Self { offset_ms: database.saturating_sub(sent).saturating_sub(passed / 2), round_trip_ms })
    }

    fn agrees_with(&self, other: &Sample) -> bool {
        let reach = (self.round_trip_ms + other.round_trip_ms) / 2 + DRIFT_MS;
        self.offset_ms.abs_diff(other.offset_ms) <= reach
    }
}

/// What is known about our clock.
#[derive(Debug, Default)]
pub struct Skew {
    samples: VecDeque<Sample>,
    is_off: bool,
}

impl Skew {
    /// Learns from a sample.
    pub fn add(&mut self, sample: Sample) {
        if !self.samples.iter().all(|older| older.agrees_with(&sample)) {
            self.samples.clear();
        }
        self.samples.truncate(SAMPLES_MAX - 1);
        self.samples.push_front(sample);
        self.is_off = self.at_least_ms() > if self.is_off { BACK_MS } else { OFF_MS };
    }

    /// What to add to our clock to get the database's; zero when it is too small to be measured.
    pub fn offset_ms(&self) -> i64 {
        let Some(best) = self.best() else { return 0 };
        let is_noise = best.offset_ms.unsigned_abs() <= best.round_trip_ms.div_ceil(2) + 1;
        if is_noise { 0 } else { best.offset_ms }
    }

    /// How far our clock is off at the least.
    fn at_least_ms(&self) -> u64 {
        self.best().map_or(0, |best| best.offset_ms.unsigned_abs().saturating_sub(best.round_trip_ms / 2))
    }

    fn best(&self) -> Option<&Sample> {
        // The newest is in front, and the first of equals is taken.
        self.samples.iter().min_by_key(|sample| sample.round_trip_ms)
    }

    /// Whether our clock is too far off to take part in firing.
    pub fn is_off(&self) -> bool {
        self.is_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(offset_ms: i64, round_trip_ms: u64) -> Sample {
        Sample { offset_ms, round_trip_ms }
    }

    #[test]
    fn the_shortest_of_the_last_round_trips_counts() {
        let mut skew = Skew::default();
        assert_eq!(skew.offset_ms(), 0);
        skew.add(sample(30, 80));
        assert_eq!(skew.offset_ms(), 0, "within what cannot be told from nothing");
        skew.add(sample(14, 4));
        assert_eq!(skew.offset_ms(), 14);
        (0..7).for_each(|_| skew.add(sample(40, 60)));
        assert_eq!(skew.offset_ms(), 14);
        skew.add(sample(40, 60));
        assert_eq!(skew.offset_ms(), 40, "the good one is too old");
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_at_once() {
        let mut skew = Skew::default();
        (0..8).for_each(|_| skew.add(sample(0, 1)));
        skew.add(sample(-3_600_000, 30));
        assert_eq!((skew.offset_ms(), skew.is_off()), (-3_600_000, true));
    }

    #[test]
    fn one_that_was_off_must_come_well_back() {
        let mut skew = Skew::default();
        for (offset, is_off) in [(500, false), (501, true), (450, true), (-401, true), (400, false), (450, false)] {
            skew.add(sample(offset, 1));
            assert_eq!(skew.is_off(), is_off, "{offset}");
        }
    }

    #[test]
    fn a_slow_answer_accuses_nobody() {
        let mut skew = Skew::default();
        skew.add(sample(900, 1_900));
        assert!(!skew.is_off());
        skew.add(sample(900, 700));
        assert!(skew.is_off());
    }

    #[test]
    fn a_sample_is_taken_in_the_middle() {
        assert_eq!(Sample::new(1_000, 1_010, 1_605, 10), Some(sample(600, 10)));
        assert_eq!(Sample::new(1_000, 1_010, 405, 10), Some(sample(-600, 10)));
        assert_eq!(Sample::new(1_000, 5_000, 1_005, 10), None, "set meanwhile");
    }
}
