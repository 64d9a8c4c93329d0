//! How long to wait before asking again, and which refusals are worth it.

use crate::Error;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Doubles from call to call, up to 5 s, and is spread so that workers do not come back all at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let delay = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures += 1;
        jittered(delay, 50)
    }

    /// Whether nothing has failed since the last success.
    pub(super) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// It worked.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// `duration`, or up to `percent` of it less.
pub(crate) fn jittered(duration: Duration, percent: u32) -> Duration {
    let share = (random() % 1_000) as f64 / 1_000.0;
    duration.mul_f64(1.0 - share * f64::from(percent) / 100.0)
}

/// Chance enough to spread calls and to tell processes apart; no security depends on it.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Whether the same call may be answered otherwise later. What does not come from a Campanile server (a proxy on the
/// way, a server that starts) may be; a refusal of ours says itself.
pub(super) fn may_work_later(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Unexpected { .. } => true,
        Error::Refused(problem) => is_passing(problem.status) || problem.retryable,
        Error::Request(_) => false,
    }
}

/// Whether an HTTP status is about the server's moment, not about the request.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Problem;

    #[test]
    fn delays_grow_to_a_bound_and_start_again() {
        let mut backoff = Backoff::default();
        let delays: Vec<Duration> = (0..100).map(|_| backoff.next()).collect();
        assert!(delays[0] >= FIRST / 2 && delays[0] <= FIRST, "{delays:?}");
        assert!(delays[20..].iter().all(|delay| (LONGEST / 2..=LONGEST).contains(delay)), "{delays:?}");
        assert!(delays[20..].windows(2).any(|pair| pair[0] != pair[1]), "no jitter: {delays:?}");
        backoff.reset();
        assert!(backoff.is_fresh() && backoff.next() <= FIRST);
    }

    #[test]
    fn refusals_say_whether_to_come_back() {
        let refused = |status, retryable| {
            let problem = serde_json::json!({ "title": "t", "status": status, "code": "c", "retryable": retryable });
            Error::Refused(Box::new(serde_json::from_value::<Problem>(problem).unwrap()))
        };
        assert!(may_work_later(&refused(503, false)) && may_work_later(&refused(429, false)));
        assert!(may_work_later(&refused(409, true)) && !may_work_later(&refused(403, false)));
        assert!(may_work_later(&Error::Unreachable { url: "u".into(), message: "m".into() }));
        assert!(may_work_later(&Error::Unexpected { url: "u".into(), status: 404, message: "m".into() }));
        assert!(!may_work_later(&Error::Request("r".into())));
    }
}
