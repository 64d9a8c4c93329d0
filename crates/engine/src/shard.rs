//! Step 2, load: the owned shards' jobs of the next horizon, in the wheel. Before: intake. After: fire.
//!
//! Pure: rows in, fires out. A job is in memory only while its next fire lies within the horizon, at about 150 bytes;
//! the rest stays in the store. What has been handed out to be fired is *planned*; what the store has made durable is
//! *committed*; what the store's cursor says is *flushed*. Flushed ≤ committed ≤ planned, always: a crash at any point
//! leaves a cursor that lags, and the next owner finds what already fired by its execution id.
//!
//! A newer version of a job replaces the older one here at once. Fires of the older version that are already durable but not
//! yet due are planned again under the newer one; the store lets the newer version take the row over.

use crate::wheel::{Entry, Wheel};
use campanile_model::action::ActionKind;
use campanile_model::catch_up::{self, CatchUp, Series};
use campanile_model::ids::FireKind;
use campanile_model::job::{Cursor, JobState, Priority, next_fire, spread_offset_ms};
use campanile_model::queue::Dispatch;
use campanile_model::schedule::Plan;
use campanile_model::shard::{ShardId, shard_of};
use campanile_model::store::{CursorMove, Fire, PlannedJob, Skip};
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use hashbrown::HashTable;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The jobs of the owned shards whose next fire is near.
pub struct Planner {
    slots: Slab,
    free: Vec<u32>,
    /// Slots by the id of their job. The ids stay in the slots, so that an entry is four bytes.
    by_id: HashTable<u32>,
    wheel: Wheel,
    /// Entries of the wheel whose slot has moved on.
    stale_entries: usize,
    /// Slots whose committed cursor is ahead of the store's.
    dirty: VecDeque<u32>,
    /// Jobs whose next fire lies after this are left to the store.
    horizon: Timestamp,
    plans: HashMap<Arc<str>, Arc<Plan>>,
    pools: Interner<Arc<str>>,
    policies: Interner<CatchUp>,
}

/// A planned job; kept small, since there may be millions.
struct Slot {
    id: JobId,
    /// `None` for a one-off: there is nothing after its only fire.
    plan: Option<Arc<Plan>>,
    planned: Position,
    committed: Position,
    ends_at: Timestamp,
    version: u32,
    generation: u32,
    tenant: TenantId,
    offset_ms: u32,
    pool: u32,
    policy: u32,
    priority: Priority,
    action: ActionKind,
    /// Whether the store's cursor lags behind `committed`.
    dirty: bool,
    /// Whether its next fire lies beyond the horizon and so is not in the wheel.
    parked: bool,
    live: bool,
}

/// A `Cursor` in twelve bytes: `MAX` stands for none.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Position {
    next_at: Timestamp,
    fires_left: u32,
}

/// What `due` hands out: write it, then give `moves` back to `committed`.
#[derive(Default)]
pub struct Due {
    /// Executions to insert.
    pub fires: Vec<Fire>,
    /// Fires that will not run.
    pub skips: Vec<Skip>,
    /// How far each job gets by it.
    pub moves: Vec<Move>,
}

/// How far a job gets by a write.
#[derive(Copy, Clone)]
pub struct Move {
    slot: u32,
    generation: u32,
    to: Position,
}

/// When stale entries outnumber this and half of the wheel, they are swept out.
const STALE_ENTRIES_MIN: usize = 10_000;

impl Planner {
    /// No jobs yet; the horizon ends at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self {
            slots: Slab::default(),
            free: Vec::new(),
            by_id: HashTable::new(),
            wheel: Wheel::new(now),
            stale_entries: 0,
            dirty: VecDeque::new(),
            horizon: now,
            plans: HashMap::new(),
            pools: Interner::default(),
            policies: Interner::default(),
        }
    }

    /// Jobs in memory.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Jobs whose stored cursor lags.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Where the horizon ends.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// Moves the end of the horizon. Rows up to it are about to be loaded.
    pub fn extend(&mut self, horizon: Timestamp) {
        self.horizon = self.horizon.max(horizon);
        self.plans.retain(|_, plan| Arc::strong_count(plan) > 1);
    }

    /// Takes rows in: from the loader (a job that is known in the same version is left alone) or because they changed.
    /// Returns the ids of jobs whose stored plan cannot be read; they are left out.
    pub fn load(&mut self, jobs: Vec<PlannedJob>) -> Vec<JobId> {
        jobs.into_iter().filter_map(|job| self.load_one(job)).collect()
    }

    fn load_one(&mut self, job: PlannedJob) -> Option<JobId> {
        let known = self.find(job.id);
        if known.is_some_and(|slot| self.slots[slot].version >= job.version) {
            return None;
        }
        let Ok(plan) = self.plan(&job.plan) else { return Some(job.id) };
        let offset_ms = spread_offset_ms(job.id, job.spread_ms) as u32;
        let mut position = Position::from(job.cursor);
        if let Some(old) = known.map(|slot| &self.slots[slot]) {
            position.next_at = rewind(&job, &plan, offset_ms, old).unwrap_or(position.next_at);
        }
        if let Some(slot) = known {
            self.remove(slot);
        }
        if job.state != JobState::Active || position.next_at > self.horizon {
            return None;
        }
        let slot = Slot {
            id: job.id,
            plan,
            planned: position,
            committed: position,
            ends_at: job.ends_at.unwrap_or(Timestamp::MAX),
            version: job.version,
            generation: 0,
            tenant: job.tenant,
            offset_ms,
            pool: self.pools.intern(job.pool),
            policy: self.policies.intern(job.catch_up),
            priority: job.priority,
            action: job.action,
            dirty: false,
            parked: false,
            live: true,
        };
        self.insert(slot);
        None
    }

    /// When to look again: at or before the earliest planned fire.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.wheel.next_at()
    }

    /// An upper bound on the fires up to `until`.
    pub fn count_until(&self, until: Timestamp) -> usize {
        self.wheel.count_until(until)
    }

    /// Hands out about `max` fires up to `until`, which may lie after `now`: those are made durable ahead of their instant.
    pub fn due(&mut self, now: Timestamp, until: Timestamp, max: usize) -> Due {
        let mut due = Due::default();
        let mut entries = Vec::new();
        while due.fires.len() < max && due.moves.len() < max {
            entries.clear();
            self.wheel.pop(until, max - due.moves.len(), &mut entries);
            if entries.is_empty() {
                break;
            }
            for &entry in &entries {
                self.fire(entry, now, &mut due);
            }
        }
        due
    }

    fn fire(&mut self, entry: Entry, now: Timestamp, due: &mut Due) {
        let slot = &mut self.slots[entry.slot];
        if slot.generation != entry.generation || !slot.live {
            self.stale_entries = self.stale_entries.saturating_sub(1);
            return;
        }
        let at = slot.planned.next_at;
        let (pool, policy) = (self.pools.get(slot.pool).clone(), *self.policies.get(slot.policy));
        let cursor = slot.planned.cursor();
        let decision = match &slot.plan {
            None => catch_up::decide_one_off(policy, at, now.max(at)),
            Some(plan) => {
                let ends_at = Some(slot.ends_at).filter(|&end| end != Timestamp::MAX);
                let series = Series { plan, offset_ms: slot.offset_ms.into(), ends_at, fires_left: cursor.fires_left };
                catch_up::decide(policy, series, at, now.max(at))
            }
        };
        for fire_at in decision.fires {
            due.fires.push(Fire { dispatch: slot.dispatch(fire_at, &pool), kind: FireKind::Schedule });
        }
        for (from, to, reason) in decision.skips {
            due.skips.push(Skip { tenant: slot.tenant, job: slot.id, from, to, reason, recorded_at: now });
        }
        slot.planned = decision.cursor.into();
        due.moves.push(Move { slot: entry.slot, generation: entry.generation, to: slot.planned });
        self.arm(entry.slot);
    }

    /// Notes that what `due` handed out is durable.
    pub fn committed(&mut self, moves: &[Move]) {
        for step in moves {
            let slot = &mut self.slots[step.slot];
            if !slot.live || slot.generation != step.generation {
                continue;
            }
            slot.committed = step.to;
            if !slot.dirty {
                slot.dirty = true;
                self.dirty.push_back(step.slot);
            }
        }
    }

    /// Up to `max` cursors that the store should move, in the order of their keys.
    pub fn take_dirty(&mut self, max: usize) -> Vec<CursorMove> {
        let take = max.min(self.dirty.len());
        let mut moves = Vec::with_capacity(take);
        for slot in self.dirty.drain(..take) {
            let slot = &mut self.slots[slot];
            if slot.live && slot.dirty {
                slot.dirty = false;
                moves.push(CursorMove { job: slot.id, version: slot.version, cursor: slot.committed.cursor() });
            }
        }
        moves.sort_unstable_by_key(|m| m.job);
        moves
    }

    /// Notes that the store has moved these cursors. A job with nothing to do within the horizon leaves memory.
    pub fn flushed(&mut self, moves: &[CursorMove]) {
        for step in moves {
            let Some(index) = self.find(step.job) else { continue };
            let slot = &self.slots[index];
            let settled = slot.version == step.version && !slot.dirty && slot.planned == slot.committed;
            if !settled {
                continue;
            }
            if slot.planned.next_at > self.horizon {
                self.remove(index);
            } else if slot.parked {
                // The horizon has reached it meanwhile, and the loader passed it by because its stored cursor lagged.
                self.arm(index);
            }
        }
    }

    /// Takes cursors back that the store could not move.
    pub fn unflushed(&mut self, moves: &[CursorMove]) {
        for step in moves {
            if let Some(index) = self.find(step.job) {
                let slot = &mut self.slots[index];
                if !slot.dirty {
                    slot.dirty = true;
                    self.dirty.push_back(index);
                }
            }
        }
    }

    /// Forgets the jobs of these shards: they have another owner.
    pub fn forget(&mut self, shards: &[ShardId]) {
        let theirs = |slot: &u32| shards.contains(&shard_of(self.slots[*slot].id));
        let gone: Vec<u32> = self.by_id.iter().copied().filter(theirs).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
    }

    fn insert(&mut self, mut slot: Slot) {
        let id = slot.id;
        let index = match self.free.pop() {
            Some(index) => {
                slot.generation = self.slots[index].generation;
                self.slots[index] = slot;
                index
            }
            None => self.slots.push(slot),
        };
        let slots = &self.slots;
        self.by_id.insert_unique(hash(id), index, |&slot| hash(slots[slot].id));
        self.arm(index);
    }

    /// Puts a job's next fire into the wheel, unless it lies beyond the horizon: then its slot is parked until its cursor is
    /// flushed, and leaves memory.
    fn arm(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        slot.parked = slot.planned.next_at > self.horizon;
        if !slot.parked {
            self.wheel.insert(Entry { at: slot.planned.next_at, slot: index, generation: slot.generation });
        }
    }

    fn remove(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        if let Ok(entry) = self.by_id.find_entry(hash(slot.id), |&slot| slot == index) {
            entry.remove();
        }
        slot.live = false;
        slot.dirty = false;
        slot.plan = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        if !slot.parked {
            self.stale_entries += 1;
        }
        if self.stale_entries > STALE_ENTRIES_MIN && self.stale_entries > self.wheel.len() / 2 {
            let slots = &self.slots;
            self.wheel.retain(|e| slots[e.slot].live && slots[e.slot].generation == e.generation);
            self.stale_entries = 0;
        }
    }

    fn find(&self, id: JobId) -> Option<u32> {
        self.by_id.find(hash(id), |&slot| self.slots[slot].id == id).copied()
    }

    /// The parsed plan, shared by all jobs with the same text; `None` for a one-off.
    fn plan(&mut self, text: &Arc<str>) -> Result<Option<Arc<Plan>>, ()> {
        if let Some(plan) = self.plans.get(text) {
            return Ok(Some(plan.clone()));
        }
        let plan = Plan::decode(text).map_err(|_| ())?;
        if plan.is_one_off() {
            return Ok(None);
        }
        let plan = Arc::new(plan);
        self.plans.insert(text.clone(), plan.clone());
        Ok(Some(plan))
    }
}

/// Spreads ids, whose second half is random, over the table.
fn hash(id: JobId) -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&id.as_bytes()[8..]);
    u64::from_be_bytes(half).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Where a newer version goes on, when its row's cursor is only a lagging lower bound: fires up to the change belong to
/// the older version, and those after it are planned again under the newer one.
fn rewind(job: &PlannedJob, plan: &Option<Arc<Plan>>, offset_ms: u32, old: &Slot) -> Option<Timestamp> {
    let (Some(plan), Some(old_plan)) = (plan, &old.plan) else { return None };
    let lagging = job.cursor.next_fire_at.is_some_and(|at| at <= job.updated_at);
    if !lagging || !Arc::ptr_eq(plan, old_plan) || old.offset_ms != offset_ms || job.cursor.fires_left.is_some() {
        return None;
    }
    let after_change = next_fire(plan, offset_ms.into(), job.updated_at)?;
    Some(old.planned.next_at.min(after_change))
}

impl Slot {
    fn dispatch(&self, fire_at: Timestamp, pool: &Arc<str>) -> Dispatch {
        Dispatch {
            execution: ExecutionId::scheduled(self.tenant, self.id, fire_at),
            job: self.id,
            fire_at,
            pool: pool.clone(),
            tenant: self.tenant,
            job_version: self.version,
            attempt: 0,
            priority: self.priority,
            action: self.action,
        }
    }
}

impl Position {
    fn cursor(self) -> Cursor {
        Cursor {
            next_fire_at: Some(self.next_at).filter(|&at| at != Timestamp::MAX),
            fires_left: Some(self.fires_left).filter(|&left| left != u32::MAX),
        }
    }
}

impl From<Cursor> for Position {
    fn from(cursor: Cursor) -> Self {
        Self {
            next_at: cursor.next_fire_at.unwrap_or(Timestamp::MAX),
            fires_left: cursor.fires_left.unwrap_or(u32::MAX),
        }
    }
}

/// Slots in chunks: there may be millions, which must neither be moved to grow nor reserve twice what they need.
#[derive(Default)]
struct Slab {
    /// All full but the last.
    chunks: Vec<Vec<Slot>>,
}

const CHUNK: usize = 4_096;

impl Slab {
    fn push(&mut self, slot: Slot) -> u32 {
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
struct Interner<T> {
    values: Vec<T>,
    by_value: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: Vec::new(), by_value: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    fn intern(&mut self, value: T) -> u32 {
        if let Some(&number) = self.by_value.get(&value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.by_value.insert(value, number);
        number
    }

    fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}

#[cfg(test)]
mod tests;
