//! The attempts that run: what they are, what they have to tell, and whether they should stop.
//!
//! An attempt is in [`Registry`] from its claim until its handler has ended, and gets heartbeats as long. The same execution can
//! be claimed again while an old attempt of it is still here (its lease had ended): the newer one takes its place, and
//! the old one is stopped.

use super::news::News;
use crate::wire::ClaimedExecution;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Heartbeats no closer than this, whatever a server asks for.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Why an attempt should stop. A later reason replaces an earlier one where it is graver, in this order.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// The worker ends.
    Draining,
    /// The time limit of the attempt is over.
    TimedOut,
    /// Somebody cancelled the execution.
    Cancelled,
    /// The attempt is no longer the worker's.
    Stale,
}

/// One attempt that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub execution: ClaimedExecution,
    pub started: Instant,
    pub news: Mutex<News>,
    stop: watch::Sender<Option<Stop>>,
    /// Wakes the heartbeat.
    hurry: Arc<Notify>,
}

impl Running {
    fn new(execution: ClaimedExecution, hurry: Arc<Notify>) -> Self {
        let stop = watch::Sender::new(None);
        Self { execution, started: Instant::now(), news: Mutex::default(), stop, hurry }
    }

    /// When its time is over; never, where it has no limit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.execution.timeout_ms {
            0 => None,
            limit => self.started.checked_add(Duration::from_millis(limit)),
        }
    }

    /// Tells it to stop.
    pub(super) fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|stop| {
            let graver = stop.is_none_or(|earlier| earlier < why);
            if graver {
                *stop = Some(why);
            }
            graver
        });
    }

    /// Why it should stop, if it should.
    pub(super) fn stopping(&self) -> Option<Stop> {
        *self.stop.borrow()
    }

    /// Waits until it should stop for this reason or a graver one.
    pub(super) async fn stopped(&self, at_least: Stop) {
        // The sender is ours, so that it cannot be gone.
        let _ = self.stop.subscribe().wait_for(|stop| stop.is_some_and(|stop| stop >= at_least)).await;
    }

    /// Adds to what is to be told.
    pub(super) fn tell(&self, add: impl FnOnce(&mut News)) {
        let urgent = {
            let mut news = self.news.lock();
            let before = news.are_urgent();
            add(&mut news);
            news.are_urgent() && !before
        };
        if urgent {
            self.hurry.notify_one();
        }
    }
}

/// All attempts that run, by execution.
#[derive(Debug, Default)]
pub(super) struct Registry {
    running: Mutex<HashMap<String, Arc<Running>>>,
    hurry: Arc<Notify>,
}

impl Registry {
    /// Adds an attempt that starts now.
    pub(super) fn insert(&self, execution: ClaimedExecution) -> Arc<Running> {
        let running = Arc::new(Running::new(execution, self.hurry.clone()));
        let id = running.execution.execution_id.clone();
        let before = self.period();
        if let Some(old) = self.running.lock().insert(id, running.clone()) {
            old.stop(Stop::Stale);
        }
        // The heartbeat may sleep for longer than this one can wait.
        if before.is_none_or(|before| before > period(&running)) {
            self.hurry.notify_one();
        }
        running
    }

    /// Removes an attempt, unless a newer one has its place.
    pub(super) fn remove(&self, attempt: &Arc<Running>) {
        let mut running = self.running.lock();
        if running.get(&attempt.execution.execution_id).is_some_and(|found| Arc::ptr_eq(found, attempt)) {
            running.remove(&attempt.execution.execution_id);
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Running>> {
        self.running.lock().values().cloned().collect()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.running.lock().is_empty()
    }

    /// How often heartbeats are due; `None` while nothing runs.
    pub(super) fn period(&self) -> Option<Duration> {
        self.running.lock().values().map(|running| period(running)).min()
    }

    /// Whether some news should not wait.
    pub(super) fn is_urgent(&self) -> bool {
        self.running.lock().values().any(|running| running.news.lock().are_urgent())
    }

    /// Waits until the heartbeat should look again: something started, or is urgent.
    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }
}

/// How often this attempt needs a heartbeat. A server that does not say gets one every third of its lease.
fn period(running: &Running) -> Duration {
    let execution = &running.execution;
    let ms = if execution.heartbeat_ms > 0 { execution.heartbeat_ms } else { execution.lease_ms / 3 };
    Duration::from_millis(ms).max(PERIOD_MIN)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub(in crate::worker) fn claimed(id: &str, fence: u64) -> ClaimedExecution {
        serde_json::from_value(json!({
            "execution_id": id, "job_id": "job_1", "job_name": "n", "job_version": 1, "handler": "h", "pool": "p",
            "payload": {"n": 1}, "attempt": 1, "max_attempts": 3, "scheduled_at": "2026-01-01T00:00:00Z",
            "deadline_at": "2026-01-01T00:00:30Z", "fence_token": fence, "lease_ms": 30_000, "heartbeat_ms": 10_000,
            "timeout_ms": 30_000,
        }))
        .unwrap()
    }

    #[test]
    fn a_graver_reason_replaces_and_a_lighter_one_does_not() {
        let running = Registry::default().insert(claimed("e", 1));
        assert_eq!(running.stopping(), None);
        for (why, then) in
            [(Stop::Draining, Stop::Draining), (Stop::Cancelled, Stop::Cancelled), (Stop::TimedOut, Stop::Cancelled)]
        {
            running.stop(why);
            assert_eq!(running.stopping(), Some(then));
        }
    }

    #[test]
    fn a_newer_attempt_takes_the_place_of_an_old_one() {
        let registry = Registry::default();
        let old = registry.insert(claimed("e", 1));
        let new = registry.insert(claimed("e", 2));
        assert_eq!((old.stopping(), new.stopping()), (Some(Stop::Stale), None));
        registry.remove(&old);
        assert_eq!(registry.all()[0].execution.fence_token, 2);
        registry.remove(&new);
        assert!(registry.is_empty() && registry.period().is_none());
    }

    #[test]
    fn the_shortest_period_counts() {
        let registry = Registry::default();
        registry.insert(claimed("a", 1));
        assert_eq!(registry.period(), Some(Duration::from_secs(10)));
        registry.insert(ClaimedExecution { heartbeat_ms: 0, lease_ms: 6_000, ..claimed("b", 2) });
        assert_eq!(registry.period(), Some(Duration::from_secs(2)));
        registry.insert(ClaimedExecution { heartbeat_ms: 0, lease_ms: 0, ..claimed("c", 3) });
        assert_eq!(registry.period(), Some(PERIOD_MIN));
    }
}
