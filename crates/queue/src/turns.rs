//! Things with names that take turns: whoever was served longest ago goes first, among all of them or among some.
//!
//! Each remembers its own last turn, rather than all sharing one pointer: receivers that ask for different names cannot
//! make each other skip one.

use crate::want::Names;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Things with names that take turns.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    seats: HashMap<Arc<str>, Seat<T>>,
    order: BTreeMap<u64, Arc<str>>,
    /// The latest turn that was given out.
    last: u64,
}

#[derive(Debug)]
struct Seat<T> {
    turn: u64,
    thing: T,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { seats: HashMap::new(), order: BTreeMap::new(), last: 0 }
    }
}

impl<T> Turns<T> {
    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        self.seats.iter().map(|(name, seat)| (name, &seat.thing))
    }

    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        self.seats.contains_key(name)
    }

    pub fn has_any(&self, names: &Names) -> bool {
        if names.len() <= self.seats.len() {
            names.iter().any(|name| self.has(name))
        } else {
            self.seats.keys().any(|name| names.contains(name))
        }
    }

    /// The first `limit` of those with these names (any, if there are no names) that are wanted, in turn.
    pub fn in_turn(&self, names: &Names, limit: usize, is_wanted: impl Fn(&str, &T) -> bool) -> VecDeque<Arc<str>> {
        if !names.is_empty() && names.len() <= self.seats.len() {
            let seats = names.iter().filter_map(|name| Some((name, self.seats.get(name)?)));
            let mut wanted: Vec<_> = seats.filter(|(name, seat)| is_wanted(name, &seat.thing)).collect();
            wanted.sort_unstable_by_key(|(_, seat)| seat.turn);
            return wanted.into_iter().take(limit).map(|(name, _)| Arc::clone(name)).collect();
        }
        let named = self.order.values().filter(|name| names.is_empty() || names.contains(name));
        named.filter(|name| is_wanted(name, &self.seats[*name].thing)).take(limit).cloned().collect()
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        self.seats.get(name).map(|seat| &seat.thing)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.seats.get_mut(name).map(|seat| &mut seat.thing)
    }

    /// The thing of this name; a new one has its turn after all others.
    pub fn seat(&mut self, name: &Arc<str>) -> &mut T
    where
        T: Default,
    {
        let seat = self.seats.entry(Arc::clone(name)).or_insert_with(|| {
            self.last += 1;
            self.order.insert(self.last, Arc::clone(name));
            Seat { turn: self.last, thing: T::default() }
        });
        &mut seat.thing
    }

    /// Its turn is over; the next one is after all others.
    pub fn pass(&mut self, name: &str) {
        if self.order.len() > 1
            && let Some(seat) = self.seats.get_mut(name)
            && let Some(name) = self.order.remove(&seat.turn)
        {
            self.last += 1;
            seat.turn = self.last;
            self.order.insert(self.last, name);
        }
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(seat) = self.seats.remove(name) {
            self.order.remove(&seat.turn);
        }
        if self.seats.is_empty() {
            // The burst is over: give back what it grew to.
            *self = Self::default();
        }
    }
}
