//! A circuit breaker: a target that keeps failing gets one probe at a time instead of everybody's retries.
//!
//! Pure. Closed, it lets everybody through and counts failures in a row. Open, it lets nobody through until its wait is
//! over, and then one: the probe. The probe's success closes it, its failure opens it for twice as long.

use campanile_model::{ExecutionId, Timestamp};

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 10;
/// The first wait, and the longest.
const WAIT_MS: (u64, u64) = (2_000, 300_000);
/// A probe that has not reported by then is forgotten: its node may have died.
const PROBE_MS: u64 = 60_000;
/// While a probe is under way, the others look again after this.
const LOOK_MS: i64 = 4_000;

/// The state of one target's breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breaker {
    Closed {
        /// Failures in a row.
        failures: u32,
    },
    /// Nobody passes before `until`.
    Open {
        /// When the next probe may pass.
        until: Timestamp,
        /// How long this wait was.
        wait_ms: u64,
    },
    /// One is under way.
    Probing {
        by: ExecutionId,
        /// When it is forgotten.
        until: Timestamp,
        /// How long the wait before it was.
        wait_ms: u64,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Whether an execution may pass; if not, when to look again. `jitter` spreads those that wait.
    pub fn admit(&mut self, execution: ExecutionId, now: Timestamp, jitter: u64) -> Result<(), Timestamp> {
        match *self {
            Breaker::Closed { .. } => Ok(()),
            Breaker::Open { until, .. } if now < until => Err(until.saturating_add_ms((jitter % 1_000) as i64)),
            Breaker::Probing { by, until, .. } if now < until && by != execution => {
                Err(now.saturating_add_ms(LOOK_MS + (jitter % 4_000) as i64))
            }
            Breaker::Open { wait_ms, .. } | Breaker::Probing { wait_ms, .. } => {
                *self = Breaker::Probing { by: execution, until: now.saturating_add_ms(PROBE_MS as i64), wait_ms };
                Ok(())
            }
        }
    }

    /// Notes that the target answered.
    pub fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    /// Notes that it failed. Failures that were under way when it opened do not open it further.
    pub fn failed(&mut self, execution: ExecutionId, now: Timestamp) {
        let open = |wait_ms: u64| Breaker::Open { until: now.saturating_add_ms(wait_ms as i64), wait_ms };
        match *self {
            Breaker::Closed { failures } if failures + 1 < FAILURES_MAX => {
                *self = Breaker::Closed { failures: failures + 1 };
            }
            Breaker::Closed { .. } => *self = open(WAIT_MS.0),
            Breaker::Probing { by, wait_ms, .. } if by == execution => *self = open((wait_ms * 2).min(WAIT_MS.1)),
            Breaker::Open { .. } | Breaker::Probing { .. } => {}
        }
    }

    /// Notes that an execution that had passed will not report.
    pub fn forget(&mut self, execution: ExecutionId, now: Timestamp) {
        if let Breaker::Probing { by, wait_ms, .. } = *self
            && by == execution
        {
            *self = Breaker::Open { until: now, wait_ms };
        }
    }

    /// Whether it keeps anybody.
    pub fn is_open(&self) -> bool {
        !matches!(self, Breaker::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ExecutionId = ExecutionId::from_bytes([1; 16]);
    const B: ExecutionId = ExecutionId::from_bytes([2; 16]);

    const fn t(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES_MAX).for_each(|_| breaker.failed(A, t(0)));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut breaker = Breaker::default();
        for n in 1..FAILURES_MAX * 3 {
            breaker.failed(A, t(0));
            if n % (FAILURES_MAX - 1) == 0 {
                breaker.succeeded();
            }
        }
        assert!(!breaker.is_open());
        assert!(opened().is_open());
    }

    #[test]
    fn one_probe_passes_and_its_success_closes() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(A, t(1_999), 5), Err(t(2_005)));
        assert_eq!(breaker.admit(A, t(2_000), 0), Ok(()));
        assert_eq!(breaker.admit(B, t(2_000), 7), Err(t(6_007)), "one probe at a time");
        assert_eq!(breaker.admit(A, t(2_001), 0), Ok(()), "the probe itself may ask again");
        breaker.succeeded();
        assert_eq!(breaker.admit(B, t(2_002), 0), Ok(()));
    }

    #[test]
    fn a_failed_probe_doubles_the_wait_up_to_the_longest() {
        let mut breaker = opened();
        let mut now = 2_000;
        for wait in [4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000] {
            assert_eq!(breaker.admit(A, t(now), 0), Ok(()));
            breaker.failed(B, t(now));
            breaker.failed(A, t(now));
            assert_eq!(breaker.admit(A, t(now + wait - 1), 0), Err(t(now + wait)));
            now += wait;
        }
    }

    #[test]
    fn a_probe_that_never_reports_is_replaced() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(A, t(2_000), 0), Ok(()));
        assert_eq!(breaker.admit(B, t(2_000 + PROBE_MS as i64), 0), Ok(()));
        breaker.forget(B, t(70_000));
        assert_eq!(breaker.admit(A, t(70_000), 0), Ok(()));
    }
}
