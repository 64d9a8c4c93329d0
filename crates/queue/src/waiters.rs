//! The receivers in line, and what was laid down for those that were called.
//!
//! They stand in groups of those that want the same: of ten thousand workers, an arrival asks each kind once.

use crate::want::Want;
use campanile_model::queue::Dispatch;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::Notify;

/// The receivers in line, and what was laid down for those that were called.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The latest ticket; a lower one has waited longer.
    tickets: u64,
    /// In line, by ticket. No group is empty.
    groups: HashMap<Arc<Want>, BTreeMap<u64, Waiter>>,
    /// Called and not yet there. None is empty.
    laid_down: HashMap<u64, Vec<Dispatch>>,
}

#[derive(Debug)]
struct Waiter {
    limit: usize,
    bell: Arc<Notify>,
}

impl Waiters {
    /// Whether nobody is in line.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Goes to the end of the line.
    pub fn enter(&mut self, want: &Arc<Want>, limit: usize) -> (u64, Arc<Notify>) {
        self.tickets += 1;
        let bell = Arc::new(Notify::new());
        let waiter = Waiter { limit, bell: Arc::clone(&bell) };
        self.groups.entry(Arc::clone(want)).or_default().insert(self.tickets, waiter);
        (self.tickets, bell)
    }

    /// Goes away, with what was laid down.
    pub fn leave(&mut self, want: &Arc<Want>, ticket: u64) -> Vec<Dispatch> {
        let laid_down = self.laid_down.remove(&ticket);
        laid_down.unwrap_or_else(|| {
            self.step_out(want, ticket);
            Vec::new()
        })
    }

    /// By ticket, who waits longest of each group that wants it: what, and how much.
    pub fn first_of_each(&self, is_wanted: impl Fn(&Want) -> bool) -> BTreeMap<u64, (Arc<Want>, usize)> {
        let groups = self.groups.iter().filter(|(want, _)| is_wanted(want));
        let first = |(want, line): (&Arc<Want>, &BTreeMap<u64, Waiter>)| {
            let (&ticket, waiter) = line.first_key_value()?;
            Some((ticket, (Arc::clone(want), waiter.limit)))
        };
        groups.filter_map(first).collect()
    }

    /// Lays items down for one in line and calls it; who of its group is next, and how much it wants.
    pub fn lay_down(&mut self, want: &Arc<Want>, ticket: u64, items: Vec<Dispatch>) -> Option<(u64, usize)> {
        self.laid_down.insert(ticket, items);
        if let Some(waiter) = self.step_out(want, ticket) {
            waiter.bell.notify_one();
        }
        let (&ticket, waiter) = self.groups.get(want)?.first_key_value()?;
        Some((ticket, waiter.limit))
    }

    /// Who of a group comes after this one, and how much it wants.
    pub fn next_of(&self, want: &Arc<Want>, ticket: u64) -> Option<(u64, usize)> {
        let (&ticket, waiter) = self.groups.get(want)?.range(ticket + 1..).next()?;
        Some((ticket, waiter.limit))
    }

    /// Whether it is still in line.
    pub fn is_in_line(&self, want: &Arc<Want>, ticket: u64) -> bool {
        self.groups.get(want).is_some_and(|line| line.contains_key(&ticket))
    }

    /// The different things that those in line want.
    pub fn wants(&self) -> impl Iterator<Item = &Arc<Want>> {
        self.groups.keys()
    }

    /// How much those in line take of this, counted up to `enough`.
    pub fn room_for(&self, enough: usize, is_wanted: impl Fn(&Want) -> bool) -> usize {
        let mut room = 0;
        for line in self.groups.iter().filter(|(want, _)| is_wanted(want)).map(|(_, line)| line) {
            for waiter in line.values() {
                room += waiter.limit;
                if room >= enough {
                    return enough;
                }
            }
        }
        room
    }

    /// Calls everybody in line with nothing laid down.
    pub fn call_all(&mut self) {
        let lines = std::mem::take(&mut self.groups).into_values();
        lines.flat_map(BTreeMap::into_values).for_each(|waiter| waiter.bell.notify_one());
    }

    fn step_out(&mut self, want: &Arc<Want>, ticket: u64) -> Option<Waiter> {
        let line = self.groups.get_mut(want)?;
        let waiter = line.remove(&ticket);
        if line.is_empty() {
            self.groups.remove(want);
        }
        waiter
    }

    /// How many are in line, and how many were called and are not yet there.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        (self.groups.values().map(BTreeMap::len).sum(), self.laid_down.len())
    }
}
