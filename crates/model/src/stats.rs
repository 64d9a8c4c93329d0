//! Rollups: what happened per minute, kept by the state machine as it happens.

use crate::ids::TenantId;
use crate::time::Timestamp;
use std::sync::Arc;

/// Buckets of a rollup's histograms: powers of two of milliseconds, the last one open.
pub const BUCKETS: usize = 24;

/// The bucket that `ms` falls into: 0 holds 0 ms, n holds [2^(n-1), 2^n).
pub const fn bucket(ms: u64) -> usize {
    let bits = 64 - ms.leading_zeros() as usize;
    if bits < BUCKETS { bits } else { BUCKETS - 1 }
}

/// What happened in one minute to the executions of one (tenant, pool, target).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub succeeded: u64,
    /// Attempts that failed and were to be tried again.
    pub failed: u64,
    pub dead: u64,
    /// Executions that were cancelled.
    pub cancelled: u64,
    /// Executions that were skipped.
    pub skipped: u64,
    /// How late first attempts started: counts by `bucket`.
    pub lateness: [u64; BUCKETS],
    /// How long last attempts ran: counts by `bucket`.
    pub duration: [u64; BUCKETS],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollup {
    /// Start of the minute.
    pub minute: Timestamp,
    pub tenant: TenantId,
    pub pool: Arc<str>,
    pub target: Arc<str>,
    pub tally: Tally,
}

/// Which rollups to read.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    pub tenant: TenantId,
    /// From this minute on.
    pub from: Timestamp,
    /// Before this.
    pub to: Timestamp,
    /// Only of this pool.
    pub pool: Option<String>,
    /// Only of this target.
    pub target: Option<String>,
    /// At most this many rows.
    pub limit: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.skipped += other.skipped;
        for (mine, theirs) in self.lateness.iter_mut().zip(other.lateness) {
            *mine += theirs;
        }
        for (mine, theirs) in self.duration.iter_mut().zip(other.duration) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two_and_the_last_is_open() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8].map(bucket), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
