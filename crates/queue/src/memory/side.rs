//! What waits for one kind of runner, and which of these runners wait.
//!
//! Invariant: nothing waits that somebody in line wants. `put` and then `serve`, and `take` before `stand_in_line`, under
//! one lock, keep it.

use super::pool::Pool;
use crate::turns::Turns;
use crate::waiters::Waiters;
use crate::want::{Want, target_of};
use campanile_model::queue::Dispatch;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::Notify;

/// At which end items are put.
#[derive(Copy, Clone, PartialEq)]
pub(super) enum End {
    Front,
    Back,
}

/// What waits for one kind of runner, and which of these runners wait.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// None is empty.
    pools: Turns<Pool>,
    waiting: usize,
    taken: usize,
    waiters: Waiters,
    fresh: Fresh,
}

/// What was put while somebody was in line, and not served yet.
#[derive(Debug, Default)]
struct Fresh {
    count: usize,
    /// For which pools, at which priority's level, and for which targets.
    cells: HashSet<(Arc<str>, u8, Arc<str>)>,
}

impl Side {
    /// Published and not yet received.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Received and not yet settled.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Those that are not empty, in no particular order.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &Pool)> {
        self.pools.iter()
    }

    /// That many of the taken ones were decided, or come back.
    pub fn settle(&mut self, count: usize) {
        self.taken = self.taken.saturating_sub(count);
    }

    /// Puts an item where it waits. `serve` must follow.
    pub fn put(&mut self, item: Dispatch, end: End) {
        if !self.waiters.is_empty() {
            self.fresh.count += 1;
            self.fresh.cells.insert((Arc::clone(&item.pool), item.priority.code(), target_of(&item)));
        }
        self.waiting += 1;
        self.pools.seat(&Arc::clone(&item.pool)).put(item, end);
    }

    /// Takes up to `limit` of what is wanted; none only if none waits.
    pub fn take(&mut self, want: &Want, limit: usize) -> Vec<Dispatch> {
        let pools = &mut self.pools;
        let mut names = pools.in_turn(&want.pools, limit, |name, pool| !want.except.contains(name) && pool.has(want));
        if names.is_empty() {
            return Vec::new();
        }
        // If all are served, what does not divide goes to the first ones, and the next batch starts with another.
        let first = names.front().filter(|_| names.len() < limit).cloned();
        let mut taken = Vec::with_capacity(limit.min(self.waiting));
        // Even shares; what one pool leaves goes to the others.
        while taken.len() < limit && !names.is_empty() {
            let mut sharers = names.len();
            names.retain(|name| {
                let share = (limit - taken.len()).div_ceil(sharers);
                sharers -= 1;
                let Some(pool) = pools.get_mut(name) else { return false };
                let count = pool.take(want, share, &mut taken);
                if pool.waiting() == 0 {
                    pools.remove(name);
                    return false;
                }
                pools.pass(name);
                count == share
            });
        }
        if let Some(first) = first {
            pools.pass(&first);
        }
        self.waiting -= taken.len();
        self.taken += taken.len();
        taken
    }

    /// A place in line, for a receiver that found nothing to take: its ticket, and the bell that rings once something was
    /// laid down for it.
    pub fn stand_in_line(&mut self, want: &Arc<Want>, limit: usize) -> (u64, Arc<Notify>) {
        self.waiters.enter(want, limit)
    }

    /// Gives up a place in line; what was laid down there.
    pub fn leave(&mut self, want: &Arc<Want>, ticket: u64) -> Vec<Dispatch> {
        self.waiters.leave(want, ticket)
    }

    /// Lays down what was put for those in line that want it, longest waiting first.
    pub fn serve(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.count == 0 {
            return;
        }
        // Before, nothing waited that anybody in line wants. So what is taken here is fresh, and when as much was taken as
        // was put, nobody need be asked any more.
        let mut left = fresh.count;
        let is_fresh = |want: &Want| fresh.cells.iter().any(|(pool, level, target)| want.is(pool, *level, target));
        let mut next = self.waiters.first_of_each(is_fresh);
        while left > 0
            && let Some((ticket, (want, limit))) = next.pop_first()
        {
            let items = self.take(&want, limit);
            if items.is_empty() {
                // Nor is there anything for those in line who want the same.
                continue;
            }
            left = left.saturating_sub(items.len());
            if let Some((ticket, limit)) = self.waiters.lay_down(&want, ticket, items) {
                next.insert(ticket, (want, limit));
            }
        }
    }

    #[cfg(test)]
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}
