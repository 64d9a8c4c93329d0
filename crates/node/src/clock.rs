//! The machine's clock: the one place where the node reads it.

use campanile_model::time::Offset;
use campanile_model::{Clock, Timestamp};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A wall clock that gets away from the monotonic one by more than this at a time was set.
const STEP_MS: u64 = 50;
/// A new offset makes up for a step of the clock within this.
const EXPLAINED_MS: u64 = 500;
/// How long a clock that was set is not believed, unless its offset is measured anew before: somewhat longer than that
/// takes.
const HOLD_MS: u64 = 3_000;

/// The machine's clock, corrected by how far it is off the one that counts, where somebody measures that.
#[derive(Clone, Debug)]
pub struct SystemClock {
    started: Instant,
    offset: Offset,
    /// Where there is an offset.
    hold: Option<Arc<Mutex<Hold>>>,
}

/// What is believed between two measurements of the offset. The measured offset belongs to the clock as it was then:
/// when the clock is set, the sum of both would be wrong until the next measurement, and everything within the jump
/// would fire early. So the monotonic clock goes on from where the wall clock was.
#[derive(Debug, Default)]
struct Hold {
    /// The wall clock at the monotonic clock's zero; `None` at first.
    base_ms: Option<i64>,
    offset_ms: i64,
    /// Since when, by the monotonic clock, the wall clock is not believed.
    since_ms: Option<u64>,
}

impl Hold {
    /// The time that counts. Pure.
    fn now_ms(&mut self, wall_ms: i64, monotonic_ms: u64, offset_ms: i64) -> i64 {
        let passed = i64::try_from(monotonic_ms).unwrap_or(i64::MAX);
        let seen_ms = wall_ms.saturating_sub(passed);
        let base_ms = self.base_ms.unwrap_or(seen_ms);
        let believed_ms = base_ms.saturating_add(self.offset_ms);
        // A new offset that does not make up for the step was measured before it.
        let is_explained =
            offset_ms != self.offset_ms && seen_ms.saturating_add(offset_ms).abs_diff(believed_ms) <= EXPLAINED_MS;
        let is_set = seen_ms.abs_diff(base_ms) > STEP_MS && !is_explained;
        let since_ms = *self.since_ms.get_or_insert(monotonic_ms);
        if is_set && monotonic_ms.saturating_sub(since_ms) < HOLD_MS {
            return passed.saturating_add(believed_ms);
        }
        *self = Self { base_ms: Some(seen_ms), offset_ms, since_ms: None };
        wall_ms.saturating_add(offset_ms)
    }
}

impl SystemClock {
    /// A clock whose monotonic side starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the Clock that everybody else is given")]
    pub fn new() -> Self {
        Self { started: Instant::now(), offset: Offset::default(), hold: None }
    }

    /// This clock, corrected by `offset` from now on.
    pub fn corrected(self, offset: Offset) -> Self {
        Self { offset, hold: Some(Arc::default()), ..self }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait::async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the Clock that everybody else is given")]
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        match &self.hold {
            Some(hold) => Timestamp::from_millis(hold.lock().now_ms(millis, self.monotonic_ms(), self.offset.get())),
            None => Timestamp::from_millis(millis),
        }
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// The wall clock, for commands that have no engine around them.
pub fn now() -> Timestamp {
    SystemClock::new().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_not_believed_until_it_was_measured() {
        let mut hold = Hold::default();
        assert_eq!(hold.now_ms(1_000_000, 10, 0), 1_000_000);
        // It drifts a little, and is followed.
        assert_eq!(hold.now_ms(1_000_103, 110, 0), 1_000_103);
        // An hour ahead: the monotonic clock counts.
        assert_eq!(hold.now_ms(4_600_203, 210, 0), 1_000_203);
        assert_eq!(hold.now_ms(4_601_003, 1_010, 0), 1_001_003);
        // Now it was measured, and the sum is right again.
        assert_eq!(hold.now_ms(4_601_103, 1_110, -3_600_000), 1_001_103);
        // Set right: the old offset is too much for it.
        assert_eq!(hold.now_ms(1_001_203, 1_210, -3_600_000), 1_001_203);
        assert_eq!(hold.now_ms(1_001_303, 1_310, 0), 1_001_303);
    }

    #[test]
    fn an_offset_from_before_the_step_explains_nothing() {
        let mut hold = Hold::default();
        assert_eq!(hold.now_ms(1_000_000, 0, 2), 1_000_002);
        assert_eq!(hold.now_ms(4_600_100, 100, 3), 1_000_102);
        assert_eq!(hold.now_ms(4_600_200, 200, -3_600_000), 1_000_200);
    }

    #[test]
    fn a_clock_that_was_set_with_the_database_s_is_believed_after_a_while() {
        let mut hold = Hold::default();
        assert_eq!(hold.now_ms(1_000_000, 0, 0), 1_000_000);
        assert_eq!(hold.now_ms(1_060_100, 100, 0), 1_000_100);
        assert_eq!(hold.now_ms(1_063_099, 3_099, 0), 1_003_099);
        assert_eq!(hold.now_ms(1_063_100, 3_100, 0), 1_063_100);
        assert_eq!(hold.now_ms(1_063_200, 3_200, 0), 1_063_200);
    }
}
