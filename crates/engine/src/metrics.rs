//! What the engine counts. Counters only grow; distributions are histograms with fixed buckets, so that counting costs an
//! atomic addition and reading never stops a writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that moves both ways.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Makes it `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Milliseconds, in buckets: exact up to 63 ms, then 32 per doubling, so within 3 % of the value.
#[derive(Debug)]
pub struct Histogram(Box<[AtomicU64]>);

const STEPS: u64 = 32;

impl Default for Histogram {
    fn default() -> Self {
        Self((0..64 * STEPS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    pub fn record(&self, ms: u64) {
        self.0[Self::bucket(ms)].fetch_add(1, Ordering::Relaxed);
    }

    /// The value below or at which `share` (0 to 1) of the counted ones lie; 0 when there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let counts: Vec<u64> = self.0.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = counts.iter().position(|&c| {
            seen += c;
            total > 0 && seen >= rank
        });
        bucket.map_or(0, Self::upper)
    }

    fn bucket(ms: u64) -> usize {
        if ms < 2 * STEPS {
            return ms as usize;
        }
        let shift = u64::from(63 - ms.leading_zeros()) - 5;
        (shift * STEPS + (ms >> shift)) as usize
    }

    fn upper(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        if bucket < 2 * STEPS {
            return bucket;
        }
        let shift = bucket / STEPS - 1;
        let lower = (bucket - shift * STEPS) << shift;
        lower + ((1 << shift) - 1)
    }
}

/// Writes of one verb of the store, and the rows in them: how much one write carries.
#[derive(Debug, Default)]
pub struct Batches {
    pub writes: Counter,
    pub rows: Counter,
}

impl Batches {
    pub fn count(&self, rows: usize) {
        self.writes.add(1);
        self.rows.add(rows as u64);
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    pub jobs_accepted: Counter,
    pub fired: Counter,
    /// Fires that existed already: after a restart, or a second owner.
    pub fires_repeated: Counter,
    /// Ranges of fires recorded as skipped.
    pub skips: Counter,
    /// Writes refused because the shard has another owner.
    pub epoch_refused: Counter,
    /// Executions handed to the queue.
    pub dispatched: Counter,
    pub started: Counter,
    pub succeeded: Counter,
    /// Attempts that will be followed by another.
    pub retried: Counter,
    /// Executions that are dead.
    pub dead: Counter,
    /// Executions discarded at claim, because their job had changed.
    pub discarded: Counter,
    /// Executions that wait for an earlier run of their job.
    pub held: Counter,
    /// Executions put off by the limits of their pool or target.
    pub deferred: Counter,
    /// Claims, heartbeats and completions refused because somebody else was first.
    pub stale_refused: Counter,
    /// Attempts whose node or lease was lost.
    pub lost: Counter,
    /// Executions whose message was lost and that were published again.
    pub republished: Counter,
    /// Expectations that were broken.
    pub late: Counter,
    /// Notifications that an endpoint took.
    pub delivered: Counter,
    pub undelivered: Counter,
    /// Executions deleted after their retention.
    pub pruned: Counter,
    /// By how much the counters of the store had drifted.
    pub drifted: Counter,
    /// Errors of the store or the queue, each followed by another try.
    pub store_errors: Counter,
    pub fires: Batches,
    pub claims: Batches,
    pub completions: Batches,
    pub planned_jobs: Gauge,
    /// Executions in memory that wait for their instant.
    pub waiting: Gauge,
    /// Jobs whose stored cursor lags behind their fires.
    pub cursors_dirty: Gauge,
    /// From `fire_at` to the start of the first attempt.
    pub lateness_ms: Histogram,
}

impl Metrics {
    /// All counters by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = [
            ("jobs_accepted", &self.jobs_accepted),
            ("fired", &self.fired),
            ("fires_repeated", &self.fires_repeated),
            ("skips", &self.skips),
            ("epoch_refused", &self.epoch_refused),
            ("dispatched", &self.dispatched),
            ("started", &self.started),
            ("succeeded", &self.succeeded),
            ("retried", &self.retried),
            ("dead", &self.dead),
            ("discarded", &self.discarded),
            ("held", &self.held),
            ("deferred", &self.deferred),
            ("stale_refused", &self.stale_refused),
            ("lost", &self.lost),
            ("republished", &self.republished),
            ("late", &self.late),
            ("delivered", &self.delivered),
            ("undelivered", &self.undelivered),
            ("pruned", &self.pruned),
            ("drifted", &self.drifted),
            ("store_errors", &self.store_errors),
            ("fire_writes", &self.fires.writes),
            ("claim_writes", &self.claims.writes),
            ("completion_writes", &self.completions.writes),
        ];
        counters.map(|(name, counter)| (name, counter.get())).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_when_small_and_close_when_large() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.99), 0);
        (0..100).for_each(|ms| histogram.record(ms));
        assert_eq!(histogram.quantile(0.5), 49);
        histogram.record(100_000);
        let max = histogram.quantile(1.0);
        assert!((100_000..=103_200).contains(&max), "{max}");
        histogram.record(u64::MAX);
        assert_eq!(histogram.quantile(1.0), u64::MAX);
    }
}
