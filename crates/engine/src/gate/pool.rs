//! A pool with limits, as far as this node knows: the store has the last word.

use campanile_model::capacity::Capacity;
use campanile_model::execution::Reason;
use campanile_model::{ExecutionId, Timestamp};
use std::collections::HashMap;

/// How long one that was let through may be unknown to the store.
const UNKNOWN_MS: u64 = 60_000;

/// A pool with limits.
#[derive(Default)]
pub(super) struct Pool {
    slots: Option<u32>,
    paused: bool,
    /// Let through by this node and not over, and since when.
    running: HashMap<ExecutionId, Timestamp>,
    /// Running by the store's last word, this node's included.
    stored: u64,
}

impl Pool {
    pub(super) fn limit(&mut self, capacity: &Capacity, stored: u64, now: Timestamp) {
        (self.slots, self.paused, self.stored) = (capacity.slots, capacity.paused, stored);
        if stored < self.running.len() as u64 {
            // Some are on their way to the store, or back. Should one have been forgotten, it does not hold a slot for ever.
            self.running.retain(|_, since| now.ms_since(*since) < UNKNOWN_MS);
        }
    }

    /// Why nothing may start.
    pub(super) fn closed(&self) -> Option<Reason> {
        if self.paused {
            return Some(Reason::Paused);
        }
        let used = self.stored.max(self.running.len() as u64);
        self.slots.filter(|&slots| used >= u64::from(slots)).map(|_| Reason::QuotaDeferred)
    }

    pub(super) fn enter(&mut self, execution: ExecutionId, now: Timestamp) {
        self.running.insert(execution, now);
    }

    /// `granted`: it had a slot in the store too.
    pub(super) fn leave(&mut self, execution: ExecutionId, granted: bool) {
        self.running.remove(&execution);
        if granted {
            self.stored = self.stored.saturating_sub(1);
        }
    }

    pub(super) fn forget(&mut self, execution: ExecutionId) {
        if self.running.remove(&execution).is_some() {
            self.stored = self.stored.saturating_sub(1);
        }
    }

    /// The store says that there is no slot left.
    pub(super) fn fill(&mut self) {
        if let Some(slots) = self.slots {
            self.stored = self.stored.max(u64::from(slots));
        }
    }
}
