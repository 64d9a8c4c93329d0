//! What is known to wait where, and whose turn it is. Pure.
//!
//! A *lane* is what waits for one tenant, of one pool, priority and handler (none for what nodes run). A lane that is
//! known held something when it was last heard of; how much is not known, so a plan may ask for more than there is. A
//! lane that gave less than it was asked for is forgotten, unless it was heard of again meanwhile: *stamps* tell. So is
//! one that a look at the whole table did not find.

use crate::shares::{LEVELS, QUANTUM, Shares};
use crate::turns::Turns;
use crate::want::{Want, target_of};
use campanile_model::TenantId;
use campanile_model::job::Priority;
use campanile_model::queue::Dispatch;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The name of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub pool: Arc<str>,
    pub level: u8,
    /// A worker's handler, and none for a node.
    pub target: Arc<str>,
    pub tenant: TenantId,
}

impl Lane {
    /// Where an item waits.
    pub fn of(item: &Dispatch) -> Self {
        let (pool, level) = (Arc::clone(&item.pool), item.priority.code());
        Self { pool, level, target: target_of(item), tenant: item.tenant }
    }
}

/// A moment in what is known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

/// How many are to be taken from a lane.
#[derive(Debug, PartialEq)]
pub(super) struct Quota {
    pub lane: Lane,
    /// Nothing waits before: rows that were taken are still in the index for a while, and are not to be looked at
    /// again.
    pub from_seq: i64,
    pub count: usize,
}

/// What was taken from a lane.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Taken {
    pub count: usize,
    /// Of the last one.
    pub last_seq: i64,
}

/// What is known to wait where.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// None is empty.
    pools: Turns<Pool>,
    stamp: Stamp,
}

/// By priority, then by target. No line is empty.
#[derive(Debug, Default)]
struct Pool {
    levels: [Turns<Line>; LEVELS],
    shares: Shares,
}

/// The tenants that wait for one target at one priority, with turns.
#[derive(Debug, Default)]
struct Line {
    seats: HashMap<TenantId, Seat>,
    order: BTreeMap<u64, TenantId>,
    /// The latest turn that was given out.
    last: u64,
    /// How many more the tenant in front may take in its turn.
    deficit: u32,
}

#[derive(Debug)]
struct Seat {
    turn: u64,
    /// Nothing waits before this number.
    from_seq: i64,
    /// The lowest number that was heard of since the last plan.
    since_plan: Option<i64>,
    heard_of: Stamp,
}

impl Known {
    /// Whether anything is known that is wanted.
    pub fn has(&self, want: &Want) -> bool {
        !self.pools.in_turn(&want.pools, 1, |name, pool| !want.except.contains(name) && pool.has(want)).is_empty()
    }

    /// Whether anything is known to wait in a lane's pool that has its turn before it, or may have by the shares of the priorities.
    /// Before what is critical, that is only what is critical too.
    pub fn has_before(&self, lane: &Lane) -> bool {
        let Some(pool) = self.pools.get(&lane.pool) else { return false };
        lane.level != Priority::Critical.code() || !pool.levels[usize::from(lane.level)].is_empty()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Everything heard of from now on is later.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Something was put into a lane, with this number or a later one.
    pub fn put(&mut self, lane: &Lane, first_seq: i64) {
        self.stamp.0 += 1;
        let seat = self.seat(lane, first_seq);
        seat.from_seq = seat.from_seq.min(first_seq);
        seat.hear_of(first_seq);
    }

    /// What a look at the table found, with the first number of each lane: all lanes, or some. `since` is when it
    /// began.
    pub fn found(&mut self, lanes: Vec<(Lane, i64)>, is_all: bool, since: Stamp) {
        self.stamp.0 += 1;
        for (lane, front) in &lanes {
            // What was put since the look began may be in front of what it found.
            let heard_of = self.get(lane).filter(|seat| seat.heard_of > since);
            let from_seq = heard_of.map_or(*front, |seat| seat.from_seq.min(*front));
            let seat = self.seat(lane, from_seq);
            seat.from_seq = from_seq;
            seat.hear_of(*front);
        }
        if is_all {
            let found: HashSet<Lane> = lanes.into_iter().map(|(lane, _)| lane).collect();
            let gone: Vec<Lane> = self.lanes().filter(|lane| !found.contains(lane)).collect();
            gone.iter().for_each(|lane| self.forget(lane, since));
        }
    }

    /// What came of a quota that was planned at `since`.
    pub fn taken(&mut self, quota: &Quota, taken: Taken, since: Stamp) {
        let is_dry = taken.count < quota.count;
        if is_dry {
            self.forget(&quota.lane, since);
        }
        let Some(seat) = self.get_mut(&quota.lane) else { return };
        // However much is put meanwhile, what was taken is not to be read again.
        seat.from_seq = match seat.since_plan {
            Some(seq) if is_dry => seq,
            Some(seq) => seq.min(taken.last_seq.saturating_add(1)),
            None => taken.last_seq.saturating_add(1),
        };
    }

    /// From which lanes up to `limit` are to be taken for a receiver, in order; none only if none is known.
    pub fn plan(&mut self, want: &Want, limit: usize) -> Vec<Lane> {
        let pools = &mut self.pools;
        let names = pools.in_turn(&want.pools, limit, |name, pool| !want.except.contains(name) && pool.has(want));
        // If all are served, what does not divide goes to the first ones, and the next batch starts with another.
        let first = names.front().filter(|_| names.len() < limit).cloned();
        let mut planned = Vec::with_capacity(limit);
        let mut sharers = names.len();
        for name in names {
            let share = (limit - planned.len()).div_ceil(sharers);
            sharers -= 1;
            if let Some(pool) = pools.get_mut(&name) {
                pool.plan(&name, want, share, &mut planned);
            }
            pools.pass(&name);
        }
        if let Some(first) = first {
            pools.pass(&first);
        }
        planned
    }

    /// Plans as quotas: each lane once. They are to be carried out before the next ones are made.
    pub fn quotas<'a>(&mut self, planned: impl Iterator<Item = &'a Lane>) -> Vec<Quota> {
        let mut counts: HashMap<&Lane, usize> = HashMap::new();
        planned.for_each(|lane| *counts.entry(lane).or_default() += 1);
        let quota = |(lane, count): (&Lane, usize)| {
            let from_seq = self.get_mut(lane).map_or(i64::MIN, |seat| {
                seat.since_plan = None;
                seat.from_seq
            });
            Quota { lane: lane.clone(), from_seq, count }
        };
        counts.into_iter().map(quota).collect()
    }

    fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.pools.iter().flat_map(|(pool, levels)| {
            (0..).zip(&levels.levels).flat_map(move |(level, lines)| {
                lines.iter().flat_map(move |(target, line)| {
                    let lane =
                        move |&tenant| Lane { pool: Arc::clone(pool), level, target: Arc::clone(target), tenant };
                    line.seats.keys().map(lane)
                })
            })
        })
    }

    fn get(&self, lane: &Lane) -> Option<&Seat> {
        self.pools.get(&lane.pool)?.levels[usize::from(lane.level)].get(&lane.target)?.seats.get(&lane.tenant)
    }

    fn get_mut(&mut self, lane: &Lane) -> Option<&mut Seat> {
        let pool = self.pools.get_mut(&lane.pool)?;
        pool.levels[usize::from(lane.level)].get_mut(&lane.target)?.seats.get_mut(&lane.tenant)
    }

    /// The lane's seat, heard of just now; a new one has its turn after all others.
    fn seat(&mut self, lane: &Lane, from_seq: i64) -> &mut Seat {
        let line = self.pools.seat(&lane.pool).levels[usize::from(lane.level)].seat(&lane.target);
        let seat = line.seats.entry(lane.tenant).or_insert_with(|| {
            line.last += 1;
            line.order.insert(line.last, lane.tenant);
            Seat { turn: line.last, from_seq, since_plan: None, heard_of: self.stamp }
        });
        seat.heard_of = self.stamp;
        seat
    }

    /// Forgets a lane that was not heard of again.
    fn forget(&mut self, lane: &Lane, since: Stamp) {
        let Some(pool) = self.pools.get_mut(&lane.pool) else { return };
        let level = &mut pool.levels[usize::from(lane.level)];
        let Some(line) = level.get_mut(&lane.target) else { return };
        if line.seats.get(&lane.tenant).is_none_or(|seat| seat.heard_of > since) {
            return;
        }
        line.leave(lane.tenant);
        if line.seats.is_empty() {
            level.remove(&lane.target);
        }
        if pool.is_empty() {
            self.pools.remove(&lane.pool);
        }
    }
}

impl Seat {
    fn hear_of(&mut self, seq: i64) {
        self.since_plan = Some(self.since_plan.map_or(seq, |lowest| lowest.min(seq)));
    }
}

impl Pool {
    fn is_empty(&self) -> bool {
        self.levels.iter().all(Turns::is_empty)
    }

    fn has(&self, want: &Want) -> bool {
        want.is_any_of(&self.levels)
    }

    fn plan(&mut self, name: &Arc<str>, want: &Want, limit: usize, planned: &mut Vec<Lane>) {
        let mut lines = want.in_turn(&self.levels, limit);
        let mut credits = self.shares.credits(want.account);
        for _ in 0..limit {
            let is_open = lines.each_ref().map(|lines| !lines.is_empty());
            let Some(level) = credits.next(is_open) else { break };
            let Some(target) = lines[level].pop_front() else { break };
            let Some(tenant) = self.levels[level].get_mut(&target).and_then(Line::next) else { break };
            self.levels[level].pass(&target);
            let (pool, target_of_lane) = (Arc::clone(name), Arc::clone(&target));
            planned.push(Lane { pool, level: level as u8, target: target_of_lane, tenant });
            lines[level].push_back(target);
        }
        self.shares.remember(want.account, credits);
    }
}

impl Line {
    /// Whose turn it is.
    fn next(&mut self) -> Option<TenantId> {
        let (&turn, &tenant) = self.order.first_key_value()?;
        if self.deficit == 0 {
            self.deficit = QUANTUM;
        }
        self.deficit -= 1;
        if self.deficit == 0 && self.order.len() > 1 {
            self.order.remove(&turn);
            self.last += 1;
            self.order.insert(self.last, tenant);
            if let Some(seat) = self.seats.get_mut(&tenant) {
                seat.turn = self.last;
            }
        }
        Some(tenant)
    }

    fn leave(&mut self, tenant: TenantId) {
        let Some(seat) = self.seats.remove(&tenant) else { return };
        if self.order.first_key_value().is_some_and(|(&turn, _)| turn == seat.turn) {
            self.deficit = 0;
        }
        self.order.remove(&seat.turn);
    }
}

#[cfg(test)]
mod tests;
