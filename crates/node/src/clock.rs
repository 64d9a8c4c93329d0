//! The machine's clock: the one place where the node reads it.

use campanile_model::time::Offset;
use campanile_model::{Clock, Timestamp};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The machine's clock, corrected by how far it is off the one that counts, where somebody measures that.
#[derive(Clone, Debug)]
pub struct SystemClock {
    started: Instant,
    offset: Offset,
}

impl SystemClock {
    /// A clock whose monotonic side starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the Clock that everybody else is given")]
    pub fn new() -> Self {
        Self { started: Instant::now(), offset: Offset::default() }
    }

    /// This clock, corrected by `offset` from now on.
    pub fn corrected(self, offset: Offset) -> Self {
        Self { offset, ..self }
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
        Timestamp::from_millis(millis).saturating_add_ms(self.offset.get())
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
