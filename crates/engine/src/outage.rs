//! What is said about a store that is away: once when it goes, now and then while it stays away, and once when it is back. Each loop
//! calls it by itself and finds it away by itself, several times a second; whoever reads the log wants it once. Pure.

/// How often it is said that the store is still away.
const AGAIN_MS: u64 = 30_000;
/// The store is back when nothing has failed for so long.
const QUIET_MS: u64 = 2_000;

/// Whether the store is away, as far as calls of this node have found out.
#[derive(Default)]
pub struct Outage(Option<Away>);

struct Away {
    since_ms: u64,
    said_ms: u64,
    failed_ms: u64,
    failures: u64,
}

/// What there is to say about a call that failed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Failed {
    /// It is the first one.
    First,
    /// So many have failed in so long, and nothing was said for a while.
    Still { failures: u64, for_ms: u64 },
    /// It was said already.
    Known,
}

impl Outage {
    /// A call has failed, at this moment of the monotonic clock.
    pub fn failed(&mut self, mono: u64) -> Failed {
        let Some(away) = &mut self.0 else {
            self.0 = Some(Away { since_ms: mono, said_ms: mono, failed_ms: mono, failures: 1 });
            return Failed::First;
        };
        away.failures += 1;
        away.failed_ms = mono;
        if mono < away.said_ms + AGAIN_MS {
            return Failed::Known;
        }
        away.said_ms = mono;
        Failed::Still { failures: away.failures, for_ms: mono - away.since_ms }
    }

    /// A call was answered. If the store was away and is back: how many calls had failed, in how long.
    pub fn answered(&mut self, mono: u64) -> Option<(u64, u64)> {
        let away = self.0.take_if(|away| mono >= away.failed_ms + QUIET_MS)?;
        Some((away.failures, away.failed_ms - away.since_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_now_and_then_and_at_its_end() {
        let mut outage = Outage::default();
        assert_eq!(outage.answered(0), None);
        assert_eq!(outage.failed(1_000), Failed::First);
        assert!((1_020..31_000).step_by(500).all(|mono| outage.failed(mono) == Failed::Known));
        assert_eq!(outage.failed(31_000), Failed::Still { failures: 62, for_ms: 30_000 });
        assert_eq!(outage.failed(31_001), Failed::Known);
        assert_eq!(outage.answered(31_500), None, "another call may still fail");
        assert_eq!(outage.failed(32_000), Failed::Known);
        assert_eq!(outage.answered(34_000), Some((64, 31_000)));
        assert_eq!(outage.answered(34_001), None);
        assert_eq!(outage.failed(35_000), Failed::First, "another one");
    }
}
