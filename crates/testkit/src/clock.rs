//! A clock that moves only when a test says so.
//!
//! ```
//! # use campanile_model::{Clock, Timestamp};
//! # use campanile_testkit::clock::ManualClock;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = ManualClock::new("2026-11-16T02:00:00Z".parse().unwrap());
//! let asleep = tokio::spawn({
//!     let clock = clock.clone();
//!     async move { clock.sleep_ms(60_000).await }
//! });
//! clock.wait_for_sleepers(1).await; // It sleeps now: no race, and no real waiting.
//! clock.advance(60_000);
//! asleep.await.unwrap();
//! assert_eq!(clock.now().to_string(), "2026-11-16T02:01:00Z");
//! # }
//! ```
//!
//! Time goes on with `advance`, `advance_to` and `advance_to_next`, which move both clocks and wake who slept long
//! enough. `set` and `jump` move the wall clock alone, as an administrator or NTP would: nobody wakes, and a component
//! that measures waits by the wall clock shows its fault.

use campanile_model::{Clock, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;

/// A clock that moves only when a test says so. Clones show the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Changes whenever time moves or somebody goes to sleep.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    monotonic_ms: u64,
    /// (when it wakes, which one) of everybody asleep.
    sleepers: BTreeSet<(u64, u64)>,
    sleeps: u64,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        let state = State { now, monotonic_ms: 0, sleepers: BTreeSet::new(), sleeps: 0 };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), changed: watch::Sender::new(()) }) }
    }

    /// Lets `ms` milliseconds pass.
    pub fn advance(&self, ms: u64) {
        {
            let mut state = self.inner.state.lock();
            state.now = state.now.saturating_add_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            state.monotonic_ms = state.monotonic_ms.saturating_add(ms);
        }
        self.inner.changed.send_replace(());
    }

    /// Lets time pass until the wall clock shows `at`; nothing happens if it is later already.
    pub fn advance_to(&self, at: Timestamp) {
        self.advance(at.ms_since(self.now()));
    }

    /// Lets time pass until the first of the sleepers wakes, and says how many milliseconds that took; `None` if nobody
    /// sleeps.
    pub fn advance_to_next(&self) -> Option<u64> {
        let ms = self.next_wake_ms()?;
        self.advance(ms);
        Some(ms)
    }

    /// Sets the wall clock, forwards or backwards. No time passes.
    pub fn set(&self, at: Timestamp) {
        self.inner.state.lock().now = at;
    }

    /// Moves the wall clock by `ms`, forwards or backwards. No time passes.
    pub fn jump(&self, ms: i64) {
        let mut state = self.inner.state.lock();
        state.now = state.now.saturating_add_ms(ms);
    }

    /// How many sleep now.
    pub fn sleepers(&self) -> usize {
        let state = self.inner.state.lock();
        state.sleepers.range((state.monotonic_ms + 1, 0)..).count()
    }

    /// Milliseconds until the first of the sleepers wakes; `None` if nobody sleeps.
    pub fn next_wake_ms(&self) -> Option<u64> {
        let state = self.inner.state.lock();
        let (at, _) = state.sleepers.range((state.monotonic_ms + 1, 0)..).next()?;
        Some(at - state.monotonic_ms)
    }

    /// Waits until at least `count` sleep.
    pub async fn wait_for_sleepers(&self, count: usize) {
        self.changed_until(|| self.sleepers() >= count).await;
    }

    async fn changed_until(&self, done: impl Fn() -> bool) {
        let mut changes = self.inner.changed.subscribe();
        while !done() {
            // The sender lives in `self`, so that this cannot fail.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Default for ManualClock {
    /// A clock that stands at some fixed instant of our time.
    fn default() -> Self {
        Self::new(Timestamp::from_millis(1_794_794_400_000))
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.inner.state.lock().now
    }

    fn monotonic_ms(&self) -> u64 {
        self.inner.state.lock().monotonic_ms
    }

    async fn sleep_ms(&self, ms: u64) {
        if ms == 0 {
            return;
        }
        let sleep = Sleep::new(&self.inner, ms);
        self.changed_until(|| self.monotonic_ms() >= sleep.key.0).await;
    }
}

/// Somebody asleep; gone from the list when it wakes or is dropped.
struct Sleep<'a> {
    inner: &'a Inner,
    key: (u64, u64),
}

impl<'a> Sleep<'a> {
    fn new(inner: &'a Inner, ms: u64) -> Self {
        let key = {
            let mut state = inner.state.lock();
            state.sleeps += 1;
            let key = (state.monotonic_ms.saturating_add(ms), state.sleeps);
            state.sleepers.insert(key);
            key
        };
        inner.changed.send_replace(());
        Self { inner, key }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.inner.state.lock().sleepers.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Poll;

    async fn is_pending(future: &mut std::pin::Pin<&mut impl Future>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn sleepers_wake_when_their_time_has_passed() {
        let clock = ManualClock::default();
        let mut sleep = pin!(clock.sleep_ms(10));
        assert!(is_pending(&mut sleep).await);
        assert_eq!((clock.sleepers(), clock.next_wake_ms()), (1, Some(10)));
        clock.advance(9);
        assert!(is_pending(&mut sleep).await);
        assert_eq!(clock.advance_to_next(), Some(1));
        assert_eq!(clock.sleepers(), 0);
        sleep.await;
        assert_eq!(clock.advance_to_next(), None);
    }

    #[tokio::test]
    async fn the_wall_clock_jumps_without_waking_anybody() {
        let clock = ManualClock::default();
        let start = clock.now();
        let mut sleep = pin!(clock.sleep_ms(10));
        assert!(is_pending(&mut sleep).await);
        clock.jump(1_000_000);
        assert!(is_pending(&mut sleep).await);
        clock.set(start);
        clock.jump(-5);
        assert_eq!((clock.now(), clock.monotonic_ms()), (start.saturating_add_ms(-5), 0));
        clock.advance_to(start.saturating_add_ms(5));
        assert_eq!(clock.monotonic_ms(), 10);
        sleep.await;
        clock.advance_to(start);
        assert_eq!(clock.monotonic_ms(), 10, "time does not go back");
    }

    #[tokio::test]
    async fn a_dropped_sleeper_is_forgotten() {
        let clock = ManualClock::default();
        {
            let mut sleep = pin!(clock.sleep_ms(u64::MAX));
            assert!(is_pending(&mut sleep).await);
            assert_eq!(clock.sleepers(), 1);
        }
        assert_eq!(clock.sleepers(), 0);
        clock.sleep_ms(0).await;
    }

    #[tokio::test]
    async fn many_sleepers_on_other_threads_all_wake() {
        let clock = ManualClock::default();
        let tasks: Vec<_> = (1..=100u64)
            .map(|ms| {
                let clock = clock.clone();
                tokio::spawn(async move { clock.sleep_ms(ms).await })
            })
            .collect();
        clock.wait_for_sleepers(100).await;
        clock.advance(100);
        for task in tasks {
            task.await.unwrap();
        }
    }
}
