//! What waits for one target at one priority: a turn for every tenant that has something, and a line for each.

use super::side::End;
use crate::shares::QUANTUM;
use campanile_model::queue::Dispatch;
use campanile_model::{TenantId, Timestamp};
use std::collections::{HashMap, VecDeque};

/// Items of one tenant that lie in one piece of memory.
const CHUNK_ITEMS: usize = 512;

/// What waits for one target at one priority.
#[derive(Debug, Default)]
pub(super) struct Lane {
    turns: VecDeque<TenantId>,
    /// None is empty.
    lines: HashMap<TenantId, Line>,
    /// How many more the tenant in front may take in its turn.
    deficit: u32,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// When the first of the fronts of all lines was queued.
    pub fn oldest_queued_at(&self) -> Option<Timestamp> {
        self.lines.values().filter_map(|line| line.front()?.queued_at).min()
    }

    /// All that waits, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = &Dispatch> {
        self.lines.values().flat_map(|line| line.chunks.iter().flatten())
    }

    pub fn put(&mut self, item: Dispatch, end: End) {
        let line = self.lines.entry(item.tenant).or_default();
        if line.chunks.is_empty() {
            self.turns.push_back(item.tenant);
        }
        match end {
            End::Front => line.push_front(item),
            End::Back => line.push_back(item),
        }
    }

    pub fn take(&mut self) -> Option<Dispatch> {
        let tenant = *self.turns.front()?;
        let line = self.lines.get_mut(&tenant)?;
        let item = line.pop_front()?;
        if self.deficit == 0 {
            self.deficit = QUANTUM;
        }
        self.deficit -= 1;
        if line.chunks.is_empty() {
            // An empty line earns nothing for later.
            self.lines.remove(&tenant);
            self.turns.pop_front();
            self.deficit = 0;
        } else if self.deficit == 0 {
            self.turns.rotate_left(1);
        }
        Some(item)
    }
}

/// What waits for one tenant in one lane, in order. No chunk is empty.
#[derive(Debug, Default)]
struct Line {
    chunks: VecDeque<VecDeque<Dispatch>>,
}

impl Line {
    fn front(&self) -> Option<&Dispatch> {
        self.chunks.front()?.front()
    }

    fn push_back(&mut self, item: Dispatch) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK_ITEMS => chunk.push_back(item),
            _ => self.chunks.push_back(VecDeque::from([item])),
        }
    }

    fn push_front(&mut self, item: Dispatch) {
        match self.chunks.front_mut() {
            Some(chunk) if chunk.len() < CHUNK_ITEMS => chunk.push_front(item),
            _ => self.chunks.push_front(VecDeque::from([item])),
        }
    }

    fn pop_front(&mut self) -> Option<Dispatch> {
        let chunk = self.chunks.front_mut()?;
        let item = chunk.pop_front();
        if chunk.is_empty() {
            self.chunks.pop_front();
        }
        item
    }
}
