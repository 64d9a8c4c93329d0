//! Retry policy: how often, and how long between attempts.
//!
//! Delays are computed in integers and clamped before anything is built of them, so that attempt 4,000,000,000 is as
//! harmless as attempt 2.

use crate::fault::{Bug, planted};

/// How the delay grows.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Backoff {
    /// Always the initial delay.
    Fixed,
    /// Doubles with every attempt.
    Exponential,
    /// Doubles, then a random point of its upper half, so that failures together do not retry together.
    #[default]
    ExponentialWithJitter,
}

impl Backoff {
    /// All kinds, in the order of their codes.
    pub const ALL: [Backoff; 3] = [Backoff::Fixed, Backoff::Exponential, Backoff::ExponentialWithJitter];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Backoff::Fixed => "FIXED",
            Backoff::Exponential => "EXPONENTIAL",
            Backoff::ExponentialWithJitter => "EXPONENTIAL_WITH_JITTER",
        }
    }

    /// The number used in the store.
    pub const fn code(self) -> u8 {
        match self {
            Backoff::Fixed => 0,
            Backoff::Exponential => 1,
            Backoff::ExponentialWithJitter => 2,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|backoff| backoff.code() == code)
    }
}

/// How an execution is tried again.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// Tries in all; 1 means no retry.
    pub max_attempts: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// Delay after the first attempt.
    pub initial_delay_ms: u64,
    pub max_delay_ms: u64,
    /// All attempts and the waits between them together, from the first start.
    pub total_timeout_ms: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: Backoff::default(),
            initial_delay_ms: 1_000,
            max_delay_ms: 3_600_000,
            total_timeout_ms: None,
        }
    }
}

impl RetryPolicy {
    /// Milliseconds to wait after `attempt` (from 1) failed. `seed` is the randomness of the jitter.
    pub fn delay_ms(&self, attempt: u32, seed: u64) -> u64 {
        let doublings = attempt.saturating_sub(1);
        let grown = match self.backoff {
            Backoff::Fixed => self.initial_delay_ms,
            Backoff::Exponential | Backoff::ExponentialWithJitter => {
                // librefang#8199: the power first, the clamp afterwards.
                if planted(Bug("backoff-overflow")) {
                    self.initial_delay_ms * 2u64.pow(doublings)
                } else if doublings >= self.initial_delay_ms.leading_zeros() {
                    self.max_delay_ms
                } else {
                    self.initial_delay_ms << doublings
                }
            }
        };
        let delay = grown.min(self.max_delay_ms);
        match self.backoff {
            // rails#31872: what failed together is tried again together.
            Backoff::ExponentialWithJitter if delay > 1 && !planted(Bug("no-jitter")) => {
                delay / 2 + seed % (delay - delay / 2 + 1)
            }
            _ => delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn policy(backoff: Backoff) -> RetryPolicy {
        RetryPolicy { max_attempts: 5, backoff, initial_delay_ms: 100, max_delay_ms: 10_000, total_timeout_ms: None }
    }

    #[test]
    fn fixed_stays_and_exponential_doubles_up_to_the_maximum() {
        assert_eq!(policy(Backoff::Fixed).delay_ms(9, 0), 100);
        let delays: Vec<u64> = (1..=9).map(|a| policy(Backoff::Exponential).delay_ms(a, 0)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
    }

    #[test]
    fn jitter_stays_in_the_upper_half() {
        for seed in [0, 1, 49, 50, 51, u64::MAX] {
            let delay = policy(Backoff::ExponentialWithJitter).delay_ms(1, seed);
            assert!((50..=100).contains(&delay), "{delay}");
        }
    }

    #[test]
    fn what_failed_together_is_not_tried_again_together() {
        let delays = (0..100).map(|seed| policy(Backoff::ExponentialWithJitter).delay_ms(1, seed));
        let different: std::collections::BTreeSet<u64> = delays.collect();
        assert!(different.len() > 40, "{} different delays", different.len());
    }

    #[test]
    fn no_attempt_and_no_delay_overflows() {
        for backoff in Backoff::ALL {
            for attempt in [0, 1, 62, 63, 64, 65, u32::MAX] {
                for initial in [0, 1, u64::MAX] {
                    let max_delay_ms = u64::MAX;
                    let policy = RetryPolicy { backoff, initial_delay_ms: initial, max_delay_ms, ..Default::default() };
                    policy.delay_ms(attempt, u64::MAX);
                }
            }
        }
    }
}
