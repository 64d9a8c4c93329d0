//! The timer wheel: an in-memory index of what is due, to the millisecond. Pure: it never reads a clock.
//!
//! Hierarchical: eight levels of 64 slots; a slot of level n spans 64^n ms, so the range goes beyond the year 9999 and no
//! entry ever wraps around. An entry is 16 bytes, slots are contiguous, an insert touches one slot. Advancing
//! pops *everything* at or before the asked instant, however far that jumps, and cascades coarse slots on the way.
//!
//! Time may go back, or the caller may ask for less than before: entries inserted behind the wheel's position wait in a
//! small heap and are popped by their own instant. Nothing is ever popped early.
//!
//! Entries are removed by generation: whoever owns slot `s` bumps its generation, and drops entries of an older one when they
//! are popped. `retain` sweeps them out when they pile up.

use campanile_model::Timestamp;
use campanile_model::fault::{Bug, planted};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is due: an instant, and the owner's slot and generation.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub at: Timestamp,
    pub slot: u32,
    /// The slot's generation when the entry was made.
    pub generation: u32,
}

const LEVELS: usize = 8;
const SLOTS: usize = 64;
const BITS: u32 = 6;

/// A hierarchical timer wheel.
#[derive(Debug)]
pub struct Wheel {
    levels: Vec<Level>,
    /// Everything before this instant has been popped or lies in `behind`.
    position: u64,
    behind: BinaryHeap<Reverse<Entry>>,
    len: usize,
}

#[derive(Debug)]
struct Level {
    /// Bit n is set when slot n is not empty.
    occupied: u64,
    slots: Vec<Bucket>,
}

/// The entries of a slot, in chunks: a coarse slot may hold millions, and must neither move them to grow nor reserve twice
/// what it needs.
#[derive(Debug, Default)]
struct Bucket {
    /// All full but the last.
    chunks: Vec<Vec<Entry>>,
}

const CHUNK: usize = 512;
const KEEP: usize = 16;

impl Bucket {
    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    fn push(&mut self, entry: Entry) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(entry),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push(chunk);
            }
            None => self.chunks.push(vec![entry]),
        }
    }

    /// Moves up to `max` entries to `out`; says whether none is left.
    fn drain(&mut self, mut max: usize, out: &mut Vec<Entry>) -> bool {
        while let Some(last) = self.chunks.last_mut() {
            let from = last.len().saturating_sub(max);
            max -= last.len() - from;
            out.extend(last.drain(from..));
            if !last.is_empty() {
                return false;
            }
            // A small first chunk stays for the slot's next turn, so that quiet times allocate nothing.
            if self.chunks.len() == 1 && self.chunks[0].capacity() <= KEEP {
                return true;
            }
            self.chunks.pop();
        }
        true
    }

    fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        let kept: Vec<Entry> = std::mem::take(&mut self.chunks).into_iter().flatten().filter(keep).collect();
        kept.into_iter().for_each(|entry| self.push(entry));
    }
}

impl Wheel {
    /// An empty wheel at `position`: what is inserted before it counts as behind.
    pub fn new(position: Timestamp) -> Self {
        let level = || Level { occupied: 0, slots: (0..SLOTS).map(|_| Bucket::default()).collect() };
        let levels = (0..LEVELS).map(|_| level()).collect();
        Self { levels, position: index(position), behind: BinaryHeap::new(), len: 0 }
    }

    /// How many entries there are, those of old generations included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn insert(&mut self, entry: Entry) {
        self.len += 1;
        self.place(entry);
    }

    /// An instant at or before the earliest entry: when to look again. `None` when empty.
    pub fn next_at(&self) -> Option<Timestamp> {
        let behind = self.behind.peek().map(|entry| entry.0.at);
        let ahead = self.next_slot().map(|(_, _, start)| Timestamp::from_millis(start.max(self.position) as i64));
        behind.into_iter().chain(ahead).min()
    }

    /// Moves up to `max` entries at or before `until` to `out`, earliest first. Entries of one millisecond come in any
    /// order.
    pub fn pop(&mut self, until: Timestamp, max: usize, out: &mut Vec<Entry>) {
        let before = out.len();
        while out.len() - before < max && self.behind.peek().is_some_and(|entry| entry.0.at <= until) {
            out.extend(self.behind.pop().map(|entry| entry.0));
        }
        let mut until = index(until);
        if planted(Bug("one-slot-per-tick")) {
            // Sketch S6: the pointer moves by one slot per tick, however late the tick comes.
            until = until.min(self.position + 1);
        }
        while out.len() - before < max {
            match self.next_slot() {
                Some((level, slot, start)) if start <= until => {
                    self.position = self.position.max(start);
                    if level == 0 {
                        self.drain(slot, max - (out.len() - before), out);
                    } else {
                        self.cascade(level, slot);
                    }
                }
                _ => {
                    self.position = self.position.max(until);
                    break;
                }
            }
        }
        self.len -= out.len() - before;
    }

    /// An upper bound on the number of entries at or before `until`, in the time of a few hundred additions. Exact to the
    /// span of the slot that `until` falls into.
    pub fn count_until(&self, until: Timestamp) -> usize {
        let mut count = self.behind.len();
        let until = index(until);
        for (n, level) in self.levels.iter().enumerate().filter(|(_, level)| level.occupied != 0) {
            let starts = (0..SLOTS).filter(|&slot| self.start(n, slot) <= until);
            count += starts.map(|slot| level.slots[slot].len()).sum::<usize>();
        }
        count
    }

    /// Drops the entries that `keep` refuses.
    pub fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        self.behind.retain(|entry| keep(&entry.0));
        self.len = self.behind.len();
        for level in &mut self.levels {
            for (slot, bucket) in level.slots.iter_mut().enumerate() {
                bucket.retain(&mut keep);
                self.len += bucket.len();
                if bucket.len() == 0 {
                    level.occupied &= !(1 << slot);
                }
            }
        }
    }

    fn place(&mut self, entry: Entry) {
        let at = entry.at.millis();
        if at < 0 || (at as u64) < self.position {
            // cadence#1415: a timer that is set behind the position that was read is never read.
            match planted(Bug("timer-behind-the-cursor")) {
                true => self.len -= 1,
                false => self.behind.push(Reverse(entry)),
            }
            return;
        }
        let mut at = (at as u64).min(MAX);
        if planted(Bug("wheel-modulo")) {
            // Sketch S6, rpc-perf#180: an hour and five seconds is five seconds.
            at = self.position + (at - self.position) % 3_600_000;
        }
        // The level is that of the highest group of bits in which the instant differs from the position.
        let level = ((63 - ((self.position ^ at) | 63).leading_zeros()) / BITS) as usize;
        let slot = (at >> (BITS * level as u32)) as usize & (SLOTS - 1);
        self.levels[level].slots[slot].push(entry);
        self.levels[level].occupied |= 1 << slot;
    }

    /// The earliest slot that is not empty: its level, number and first instant. A lower level is always earlier.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let (n, level) = self.levels.iter().enumerate().find(|(_, level)| level.occupied != 0)?;
        // All occupied slots of a level lie at or after the position within one turn, so the lowest bit is the earliest.
        let slot = level.occupied.trailing_zeros() as usize;
        Some((n, slot, self.start(n, slot)))
    }

    /// The first instant of a slot.
    fn start(&self, level: usize, slot: usize) -> u64 {
        let shift = BITS * level as u32;
        let turn = shift + BITS;
        let base = if turn >= 64 { 0 } else { self.position >> turn << turn };
        base + ((slot as u64) << shift)
    }

    /// Moves up to `max` entries of a slot of one millisecond to `out`.
    fn drain(&mut self, slot: usize, max: usize, out: &mut Vec<Entry>) {
        let level = &mut self.levels[0];
        if level.slots[slot].drain(max, out) {
            level.occupied &= !(1 << slot);
        }
    }

    /// Moves the entries of a coarse slot, whose time has come, to finer ones.
    fn cascade(&mut self, level: usize, slot: usize) {
        self.levels[level].occupied &= !(1 << slot);
        for chunk in std::mem::take(&mut self.levels[level].slots[slot]).chunks {
            chunk.into_iter().for_each(|entry| self.place(entry));
        }
    }
}

/// The last instant that the levels can hold.
const MAX: u64 = (1 << (BITS * LEVELS as u32)) - 1;

fn index(at: Timestamp) -> u64 {
    (at.millis().max(0) as u64).min(MAX)
}

#[cfg(test)]
mod tests;
