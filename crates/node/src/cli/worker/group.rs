//! A process group: a program with all that it started. Ended as a whole, and with its handle at the latest.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;

/// How often we look whether a group has ended: only the program itself is our child, so that nobody tells us.
const LOOK: Duration = Duration::from_millis(20);

/// The group that a program leads. Killed when dropped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// The group of a program that was started as the leader of one.
    pub fn led_by(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    /// Sends a signal to all of it.
    pub fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // It may have ended just now, which is as good.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Waits until all of it has ended; at `kill_at`, ends it.
    pub async fn end(&self, kill_at: Instant) {
        while self.0.is_some_and(|leader| test_kill_process_group(leader).is_ok()) {
            if Instant::now() >= kill_at {
                return self.signal(Signal::KILL);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets go of it: what the program left behind may stay.
    pub fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
