//! The owned shards' jobs of the next horizon, in the wheel: `load` fills it, `fire` empties it, `flush` follows.
//!
//! Pure: rows in, fires out. A job is in memory only while its next fire lies within the horizon, at about 150 bytes;
//! the rest stays in the store. What has been handed out to be fired is *planned*; what the store has made durable is
//! *committed*; what the store's cursor says is *flushed*. Flushed ≤ committed ≤ planned, always: a crash at any point
//! leaves a cursor that lags, and the next owner finds what already fired by its execution id.
//!
//! A flushed cursor never passes an instant that has not come yet, although its execution may be durable already. A change of a job
//! makes a version with a cursor of its own, which begins after the change; the store lets it take over the rows that the
//! older one made ahead of their instant. The older version stays for what it owes up to the change, from its own cursor
//! and under its own policies. So a slot is one version of a job.

use crate::wheel::{Entry, Wheel};
use campanile_model::catch_up::{self, Series};
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::FireKind;
use campanile_model::job::{Blackout, Cursor, Firing, JobState, spread_offset_ms};
use campanile_model::schedule::Plan;
use campanile_model::shard::{ShardId, shard_of};
use campanile_model::store::{ChangeSeq, CursorMove, Fire, PlannedJob, Skip};
use campanile_model::{ExecutionId, JobId, Timestamp, limits};
use hashbrown::HashTable;
use slots::{Class, Interner, Slab, Slot};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

mod slots;

/// The jobs of the owned shards whose next fire is near.
pub struct Planner {
    slots: Slab,
    free: Vec<u32>,
    /// Slots by the id of their job; mostly one each. The ids stay in the slots, so that an entry is four bytes.
    by_id: HashTable<u32>,
    wheel: Wheel,
    /// Popped from the wheel and not yet handed out, in the order of their executions' ids.
    popped: VecDeque<Entry>,
    /// Entries of the wheel whose slot has moved on.
    stale_entries: usize,
    /// Slots whose committed cursor is ahead of the store's.
    dirty: VecDeque<u32>,
    /// Jobs whose next fire lies after this are left to the store.
    horizon: Timestamp,
    /// Changes of jobs up to here are in the wheel.
    seen: ChangeSeq,
    plans: HashMap<Arc<str>, Arc<Plan>>,
    /// When the next missed fire of a job that drips may start.
    drips: HashMap<JobId, Timestamp>,
    classes: Interner<Class>,
    /// The class that was asked for last: jobs that are read together mostly share theirs.
    last_class: Option<(Arc<Firing>, u32)>,
}

/// What `due` hands out: write it, then give `moves` back to `committed`.
#[derive(Default)]
pub struct Due {
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
    /// The last fire that the write makes durable.
    last_at: Timestamp,
    next_at: Timestamp,
    fires_left: u32,
}

/// Entries taken out of the wheel at once: a million jobs of one moment in four pieces, each sorted in some 50 ms.
const POP_MAX: usize = 262_144;
/// When stale entries outnumber this and half of the wheel, they are swept out.
const STALE_ENTRIES_MIN: usize = 10_000;

impl Planner {
    /// No jobs yet; the horizon ends at `now`, and rows that are read from now on are no older than `seen`.
    pub fn new(now: Timestamp, seen: ChangeSeq) -> Self {
        Self {
            slots: Slab::default(),
            free: Vec::new(),
            by_id: HashTable::new(),
            wheel: Wheel::new(now),
            popped: VecDeque::new(),
            stale_entries: 0,
            dirty: VecDeque::new(),
            horizon: now,
            seen,
            plans: HashMap::new(),
            drips: HashMap::new(),
            classes: Interner::default(),
            last_class: None,
        }
    }

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

    /// Up to where it has taken the changes of jobs in.
    pub fn seen(&self) -> ChangeSeq {
        self.seen
    }

    /// Begins to follow the changes of jobs here, with no job in mind.
    pub fn see_only(&mut self, from: ChangeSeq) {
        self.seen = from;
    }

    /// Notes that changes up to here are about to be loaded, and none that was read before them.
    pub fn see(&mut self, upto: ChangeSeq) {
        self.seen = self.seen.max(upto);
    }

    /// Where the horizon ends.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// Moves the end of the horizon. Rows up to it are about to be loaded.
    pub fn extend(&mut self, horizon: Timestamp) {
        self.horizon = self.horizon.max(horizon);
        self.plans.retain(|_, plan| Arc::strong_count(plan) > 1);
        let about_now = self.horizon.saturating_add_ms(-(limits::HORIZON_MS as i64));
        self.drips.retain(|_, next| *next > about_now);
    }

    /// Takes rows in: from the loader (a version that is known is left alone) or because they changed.
    /// Returns the ids of jobs whose stored plan cannot be read; they are left out.
    pub fn load(&mut self, jobs: Vec<PlannedJob>) -> Vec<JobId> {
        jobs.into_iter().filter_map(|job| self.load_one(job)).collect()
    }

    fn load_one(&mut self, job: PlannedJob) -> Option<JobId> {
        if !self.makes_way(&job) {
            return None;
        }
        let next_at = job.cursor.next_fire_at.unwrap_or(Timestamp::MAX);
        let fires_left = job.cursor.fires_left.unwrap_or(u32::MAX);
        let firing = &*job.firing;
        let ends_at = firing.ends_at.into_iter().chain(job.ended_at).min().unwrap_or(Timestamp::MAX);
        if job.state != JobState::Active || next_at > self.horizon.min(ends_at) {
            return None;
        }
        let Ok(plan) = self.plan(&job.plan) else { return Some(job.id) };
        let offset_ms = spread_offset_ms(job.id, firing.spread_ms) as u32;
        let class = self.class(&job.firing);
        let slot = Slot {
            id: job.id,
            plan,
            ends_at,
            planned_at: next_at,
            committed_at: next_at,
            last_at: Timestamp::MIN,
            flushed_at: next_at,
            planned_left: fires_left,
            committed_left: fires_left,
            version: job.version,
            generation: 0,
            tenant: job.tenant,
            offset_ms,
            class,
            dirty: false,
            parked: false,
            live: true,
            superseded: job.ended_at.is_some(),
        };
        self.insert(slot);
        None
    }

    /// What jobs with this have in common.
    fn class(&mut self, firing: &Arc<Firing>) -> u32 {
        if let Some((_, class)) = self.last_class.as_ref().filter(|(last, _)| Arc::ptr_eq(last, firing)) {
            return *class;
        }
        let class = self.classes.intern(Class {
            pool: firing.pool.clone(),
            policy: firing.catch_up,
            priority: firing.priority,
            action: firing.action,
            target: firing.target.clone(),
            overlap: firing.overlap,
            expect: firing.expect,
            blackouts: firing.blackouts.clone(),
        });
        self.last_class = Some((firing.clone(), class));
        class
    }

    /// Takes out what a row replaces: the version that it follows, and the same version if that was the newest when it was read. Says
    /// whether there is anything new in it.
    fn makes_way(&mut self, job: &PlannedJob) -> bool {
        let (is_newest, is_deleted) = (job.ended_at.is_none(), job.state == JobState::Deleted);
        let known: Vec<u32> = self.of_job(job.id).collect();
        for index in known {
            let slot = &self.slots[index];
            let goes = match slot.version.cmp(&job.version) {
                std::cmp::Ordering::Equal if slot.superseded || is_newest => return false,
                std::cmp::Ordering::Equal => true,
                // What it owes comes as a row of its own; but a deletion takes that away.
                std::cmp::Ordering::Less => is_newest && (!slot.superseded || is_deleted),
                std::cmp::Ordering::Greater if is_newest => return false,
                std::cmp::Ordering::Greater => false,
            };
            if goes {
                self.remove(index);
            }
        }
        true
    }

    /// When to look again: at or before the earliest planned fire.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.popped.front().map(|entry| entry.at).into_iter().chain(self.wheel.next_at()).min()
    }

    /// An upper bound on the fires up to `until`.
    pub fn count_until(&self, until: Timestamp) -> usize {
        self.popped.len() + self.wheel.count_until(until)
    }

    /// Hands out about `max` fires up to `until`, which may lie after `now`: those are made durable ahead of their instant.
    pub fn due(&mut self, now: Timestamp, until: Timestamp, max: usize) -> Due {
        let mut due = Due::default();
        // What is due now goes before a stampede that is made durable ahead of its instant.
        let soon = now.saturating_add_ms(limits::LEAD_MS_MIN as i64);
        if self.popped.front().is_some_and(|entry| entry.at > soon) {
            let mut urgent = Vec::new();
            self.wheel.pop(soon.min(until), max, &mut urgent);
            urgent.into_iter().for_each(|entry| self.fire(entry, now, &mut due));
        }
        while due.fires.len() < max && due.moves.len() < max {
            if self.popped.is_empty() {
                self.pop(until);
            }
            match self.popped.pop_front() {
                Some(entry) => self.fire(entry, now, &mut due),
                None => break,
            }
        }
        due
    }

    /// Takes what is due out of the wheel. Many at once are sorted as the store will keep them, across batches: a stampede then
    /// appends to its trees instead of touching a page per row.
    fn pop(&mut self, until: Timestamp) {
        let mut entries = Vec::new();
        self.wheel.pop(until, POP_MAX, &mut entries);
        if entries.len() > limits::WRITE_ITEMS_MAX {
            let slots = &self.slots;
            entries.sort_by_cached_key(|entry| {
                let slot = &slots[entry.slot];
                ExecutionId::scheduled(slot.tenant, slot.id, entry.at)
            });
        }
        self.popped = entries.into();
    }

    fn fire(&mut self, entry: Entry, now: Timestamp, due: &mut Due) {
        let slot = &mut self.slots[entry.slot];
        if slot.generation != entry.generation || !slot.live {
            self.stale_entries = self.stale_entries.saturating_sub(1);
            return;
        }
        let at = slot.planned_at;
        let class = self.classes.get(slot.class);
        let when = now.max(at);
        let decision = match &slot.plan {
            None => catch_up::decide_one_off(class.policy, at, when),
            Some(plan) => {
                let ends_at = Some(slot.ends_at).filter(|&end| end != Timestamp::MAX);
                let fires_left = Some(slot.planned_left).filter(|&left| left != u32::MAX);
                let blackouts = &class.blackouts;
                let series = Series { plan, offset_ms: slot.offset_ms.into(), ends_at, fires_left, blackouts };
                catch_up::decide(class.policy, series, at, when)
            }
        };
        let last_at = decision.fires.last().copied().unwrap_or(at);
        // OpenLiberty#10563: everything that was missed starts at once.
        let drip_ms = if decision.missed && !planted(Bug("catch-up-burst")) { class.policy.drip_ms } else { 0 };
        let mut drip = (drip_ms > 0).then(|| self.drips.entry(slot.id).or_insert(now));
        for fire_at in decision.fires {
            if let Some(blackout) = Blackout::find(&class.blackouts, fire_at) {
                // The whole blackout, so that it is one row however many fires it covers.
                let (tenant, job, reason) = (slot.tenant, slot.id, Reason::Blackout);
                let to = blackout.to.saturating_add_ms(-1);
                due.skips.push(Skip { tenant, job, from: blackout.from, to, reason, recorded_at: now });
                continue;
            }
            // Missed ones wait for their turn as executions, so that nothing waits behind them.
            let wake_at = drip.as_mut().map_or(fire_at, |next| {
                let turn = now.max(**next);
                **next = turn.saturating_add_ms(i64::try_from(drip_ms).unwrap_or(i64::MAX));
                turn
            });
            let mut dispatch = slot.dispatch(fire_at, class, self.seen);
            if planted(Bug("id-from-the-clock")) {
                // Sketch S2: whoever fires it again makes another execution.
                dispatch.execution = ExecutionId::scheduled(slot.tenant, slot.id, now);
            }
            due.fires.push(Fire {
                dispatch,
                kind: FireKind::Schedule,
                wake_at,
                overlap: class.overlap,
                covers_from: decision.covers_from,
                expect: class.expect,
            });
        }
        for (from, to, reason) in decision.skips {
            due.skips.push(Skip { tenant: slot.tenant, job: slot.id, from, to, reason, recorded_at: now });
        }
        slot.planned_at = decision.cursor.next_fire_at.unwrap_or(Timestamp::MAX);
        slot.planned_left = decision.cursor.fires_left.unwrap_or(u32::MAX);
        if planted(Bug("pop-then-register")) {
            // Sketch S7, rq#580: off the list before it is in the table.
            (slot.committed_at, slot.committed_left) = (slot.planned_at, slot.planned_left);
        }
        due.moves.push(Move {
            slot: entry.slot,
            generation: entry.generation,
            last_at,
            next_at: slot.planned_at,
            fires_left: slot.planned_left,
        });
        self.arm(entry.slot);
    }

    /// Notes that what `due` handed out is durable.
    pub fn committed(&mut self, moves: &[Move]) {
        for step in moves {
            let slot = &mut self.slots[step.slot];
            if !slot.live || slot.generation != step.generation {
                continue;
            }
            (slot.committed_at, slot.committed_left, slot.last_at) = (step.next_at, step.fires_left, step.last_at);
            if !slot.dirty {
                slot.dirty = true;
                self.dirty.push_back(step.slot);
            }
        }
    }

    /// Up to `max` cursors that the store should move, in the order of their keys. None passes an instant after `now`.
    pub fn take_dirty(&mut self, now: Timestamp, max: usize) -> Vec<CursorMove> {
        let take = max.min(self.dirty.len());
        let mut moves = Vec::with_capacity(take);
        for _ in 0..take {
            let Some(index) = self.dirty.pop_front() else { break };
            let slot = &mut self.slots[index];
            if !slot.live || !slot.dirty {
                continue;
            }
            let (next_at, fires_left) = slot.come(now);
            let whole = next_at == slot.committed_at;
            slot.dirty = !whole;
            if next_at != slot.flushed_at {
                slot.flushed_at = next_at;
                let next_fire_at = Some(next_at).filter(|&at| at != Timestamp::MAX);
                let fires_left = Some(fires_left).filter(|&left| left != u32::MAX);
                let cursor = Cursor { next_fire_at, fires_left };
                moves.push(CursorMove { job: slot.id, version: slot.version, superseded: slot.superseded, cursor });
            }
            if !whole {
                // There is more to flush when its instant has come.
                self.dirty.push_back(index);
            }
        }
        moves.sort_unstable_by_key(|m| m.job);
        moves
    }

    /// Notes that the store has moved these cursors. A job with nothing to do within the horizon leaves memory.
    pub fn flushed(&mut self, moves: &[CursorMove]) {
        for step in moves {
            let Some(index) = self.find(step.job, step.version) else { continue };
            let slot = &self.slots[index];
            let settled = !slot.dirty && slot.planned_at == slot.committed_at;
            if !settled {
                continue;
            }
            if slot.planned_at > self.horizon {
                self.remove(index);
            } else if slot.parked && !planted(Bug("passed-by-the-loader")) {
                // The horizon has reached it meanwhile, and the loader passed it by because its stored cursor lagged: at
                // temporal#5377, for good.
                self.arm(index);
            }
        }
    }

    /// Takes cursors back that the store could not move.
    pub fn unflushed(&mut self, moves: &[CursorMove]) {
        for step in moves {
            if let Some(index) = self.find(step.job, step.version) {
                let slot = &mut self.slots[index];
                // Unlike every real one, so that it is sent again.
                slot.flushed_at = Timestamp::MIN;
                if !slot.dirty {
                    slot.dirty = true;
                    self.dirty.push_back(index);
                }
            }
        }
    }

    /// Takes back what `due` handed out and could not be written: it is planned again.
    pub fn undo(&mut self, moves: &[Move]) {
        for step in moves {
            let slot = &mut self.slots[step.slot];
            if slot.live && slot.generation == step.generation {
                (slot.planned_at, slot.planned_left) = (slot.committed_at, slot.committed_left);
                // Entries and moves of later batches count no more: they are planned again too.
                slot.generation = slot.generation.wrapping_add(1);
                self.stale_entries += usize::from(!slot.parked);
                self.arm(step.slot);
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
        slot.parked = slot.planned_at > self.horizon;
        if !slot.parked {
            self.wheel.insert(Entry { at: slot.planned_at, slot: index, generation: slot.generation });
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
        // Hystrix#1976: timers that were cancelled stay until they are due.
        let sweeps = !planted(Bug("cancelled-timers-kept"));
        if sweeps && self.stale_entries > STALE_ENTRIES_MIN && self.stale_entries > self.wheel.len() / 2 {
            let slots = &self.slots;
            self.wheel.retain(|e| slots[e.slot].live && slots[e.slot].generation == e.generation);
            self.stale_entries = 0;
        }
    }

    /// The slot of a version.
    fn find(&self, id: JobId, version: u32) -> Option<u32> {
        let is_it = |slot: &Slot| slot.id == id && slot.version == version;
        self.by_id.find(hash(id), |&slot| is_it(&self.slots[slot])).copied()
    }

    /// The slots of a job's versions.
    fn of_job(&self, id: JobId) -> impl Iterator<Item = u32> {
        self.by_id.iter_hash(hash(id)).copied().filter(move |&slot| self.slots[slot].id == id)
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

#[cfg(test)]
pub(crate) mod tests;
