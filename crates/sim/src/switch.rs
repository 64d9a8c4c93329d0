//! Whether a process runs, stands still, or has ended.
//!
//! Everything that a node does to the world outside passes its switch. A process that was stopped goes on when it is
//! let go; one that was killed never does: its tasks stay where they are, and not even their destructors run, as with
//! kill -9.

use campanile_model::{Clock, Timestamp};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::Notify;

use crate::time::Time;

/// What a process does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    Up,
    Paused,
    Dead,
}

/// The switch of a process.
pub struct Switch {
    mode: Mutex<Mode>,
    changed: Notify,
}

impl Default for Switch {
    fn default() -> Self {
        Self { mode: Mutex::new(Mode::Up), changed: Notify::new() }
    }
}

impl Switch {
    /// What the process does.
    pub fn mode(&self) -> Mode {
        *self.mode.lock()
    }

    pub fn is_up(&self) -> bool {
        self.mode() == Mode::Up
    }

    /// From now on it does this. The dead stay dead.
    pub fn set(&self, mode: Mode) {
        {
            let mut now = self.mode.lock();
            if *now == Mode::Dead {
                return;
            }
            *now = mode;
        }
        self.changed.notify_waiters();
    }

    /// Waits until it runs.
    pub async fn pass(&self) {
        loop {
            let changed = self.changed.notified();
            match self.mode() {
                Mode::Up => return,
                Mode::Dead => std::future::pending().await,
                Mode::Paused => changed.await,
            }
        }
    }

    /// Waits until it does not run.
    pub async fn stopped(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.is_up() {
                return;
            }
            changed.await;
        }
    }
}

/// The clock of one process: true time, and how far its machine's clock is off.
pub struct NodeClock {
    time: Arc<Time>,
    switch: Arc<Switch>,
    /// How far the machine's clock is ahead.
    ahead_ms: Arc<AtomicI64>,
    /// What the coordinator has measured of it, and is taken off.
    measured_ms: AtomicI64,
    started_ms: u64,
}

impl NodeClock {
    /// The clock of a process that starts now, on a machine whose clock is so far ahead.
    pub fn new(time: Arc<Time>, switch: Arc<Switch>, ahead_ms: Arc<AtomicI64>) -> Self {
        let started_ms = time.ms();
        Self { time, switch, ahead_ms, measured_ms: AtomicI64::new(0), started_ms }
    }

    /// Measures how far the machine's clock is off, and corrects it from now on. Answers by how much.
    pub fn measure(&self) -> i64 {
        let ahead = self.ahead_ms.load(Ordering::Relaxed);
        self.measured_ms.store(ahead, Ordering::Relaxed);
        ahead
    }

    /// How far it shows more than the truth.
    pub fn error_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed) - self.measured_ms.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.time.now().saturating_add_ms(self.error_ms())
    }

    fn monotonic_ms(&self) -> u64 {
        self.time.ms() - self.started_ms
    }

    async fn sleep_ms(&self, ms: u64) {
        self.time.sleep(ms).await;
        self.switch.pass().await;
    }
}
