//! How planned jobs are kept in memory: millions of them, in about a hundred bytes each.

use campanile_model::action::ActionKind;
use campanile_model::catch_up::CatchUp;
use campanile_model::job::{Blackout, Priority, next_fire};
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::schedule::Plan;
use campanile_model::store::ChangeSeq;
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

/// A version of a planned job; kept small, since there may be millions: `MAX` stands for none in its instants and counts.
pub(super) struct Slot {
    pub(super) id: JobId,
    /// `None` for a one-off: there is nothing after its only fire.
    pub(super) plan: Option<Arc<Plan>>,
    /// No fire after this.
    pub(super) ends_at: Timestamp,
    /// The next fire to hand out.
    pub(super) planned_at: Timestamp,
    /// The next fire to become durable.
    pub(super) committed_at: Timestamp,
    /// The last fire that is durable.
    pub(super) last_at: Timestamp,
    /// What the store's cursor says.
    pub(super) flushed_at: Timestamp,
    /// Fires left from `planned_at` on.
    pub(super) planned_left: u32,
    /// Fires left from `committed_at` on.
    pub(super) committed_left: u32,
    pub(super) version: u32,
    pub(super) generation: u32,
    pub(super) tenant: TenantId,
    pub(super) offset_ms: u32,
    pub(super) class: u32,
    /// Whether the store's cursor lags behind what is durable.
    pub(super) dirty: bool,
    /// Whether its next fire lies beyond the horizon and so is not in the wheel.
    pub(super) parked: bool,
    pub(super) live: bool,
    /// Whether another version has followed it: it is here for what it owes.
    pub(super) superseded: bool,
}

/// What many jobs have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) pool: Arc<str>,
    pub(super) policy: CatchUp,
    pub(super) priority: Priority,
    pub(super) action: ActionKind,
    pub(super) target: Arc<str>,
    pub(super) overlap: Overlap,
    pub(super) expect: Expectation,
    pub(super) blackouts: Arc<[Blackout]>,
}

impl Slot {
    /// The committed cursor as far as its instants have come: fires that are durable ahead of theirs do not count yet.
    pub(super) fn come(&self, now: Timestamp) -> (Timestamp, u32) {
        if self.last_at <= now {
            return (self.committed_at, self.committed_left);
        }
        let Some(plan) = &self.plan else { return (self.last_at, self.committed_left) };
        let offset_ms = self.offset_ms.into();
        let next = |after: Timestamp| next_fire(plan, offset_ms, after).filter(|&at| at <= self.last_at);
        let first = next(now).unwrap_or(self.last_at);
        let fires_left = match self.committed_left {
            u32::MAX => u32::MAX,
            // Counted one by one: the lead holds only a few.
            left => left.saturating_add(1 + std::iter::successors(next(first), |&at| next(at)).count() as u32),
        };
        (first, fires_left)
    }

    /// How it is dispatched, by an owner that has seen the changes of jobs up to `seen`.
    pub(super) fn dispatch(&self, fire_at: Timestamp, class: &Class, seen: ChangeSeq) -> Dispatch {
        Dispatch {
            execution: ExecutionId::scheduled(self.tenant, self.id, fire_at),
            job: self.id,
            fire_at,
            pool: class.pool.clone(),
            tenant: self.tenant,
            job_version: self.version,
            attempt: 0,
            priority: class.priority,
            action: class.action,
            target: class.target.clone(),
            queued_at: None,
            as_of: if self.superseded { ChangeSeq::default() } else { seen },
        }
    }
}

/// Slots in chunks: there may be millions, which must neither be moved to grow nor reserve twice what they need.
#[derive(Default)]
pub(super) struct Slab {
    /// All full but the last.
    pub(super) chunks: Vec<Vec<Slot>>,
}

/// Some 64 KiB a chunk: of the sizes tried, the one of which the allocator wasted least.
const CHUNK: usize = 680;

impl Slab {
    pub(super) fn push(&mut self, slot: Slot) -> u32 {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("a chunk with room was just made");
        last.push(slot);
        (before + last.len() - 1) as u32
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

/// Few distinct values, each kept once and named by a small number.
pub(super) struct Interner<T> {
    values: Vec<T>,
    by_value: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), by_value: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    pub(super) fn intern(&mut self, value: T) -> u32 {
        if let Some(&number) = self.by_value.get(&value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.by_value.insert(value, number);
        number
    }

    pub(super) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}
