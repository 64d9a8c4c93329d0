//! A queue inside the process.
//!
//! Before: dispatch. After: worker. Executions wait by (runner, pool), then by priority, then by tenant:
//!
//! - Between *pools* that a receiver names, each gets an even share of the batch; pools are separate capacity.
//! - Between *priorities*, smooth weighted round robin over those that have something: 8 : 4 : 2 : 1. With all four
//!   waiting, CRITICAL gets more than half, and LOW still one in fifteen: urgent work goes first, none starves.
//! - Between *tenants*, deficit round robin: each takes at most `QUANTUM` executions in its turn, however many it
//!   has waiting. A turn that a full batch cuts short goes on with the next batch.
//! - Of one tenant and priority, first in first out. What is released goes back to the front.
//!
//! Receivers wait in line, too: what arrives wakes as many of them as it takes, longest waiting first, and not the other
//! thousand. A receiver that was woken and gives up passes it on.
//!
//! One lock per call, held for O(batch), never across an await. Items lie in chunks, so that a burst of a million moves
//! nothing when it grows and gives its memory back while it drains; what is empty (chunk, tenant, pool) is dropped.
//!
//! A crash loses everything here, which costs time and no execution: the store still has them as not yet claimed.

use campanile_model::action::Runner;
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Dispatch, Queue, Receive};
use campanile_model::{Error, ExecutionId, Kind, Result, TenantId, limits};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// Executions of one tenant in its turn.
const QUANTUM: u32 = 4;
/// Shares of the priorities, in the order of `Priority::ALL`.
const WEIGHTS: [i32; Priority::ALL.len()] = [8, 4, 2, 1];
/// Items of one tenant that lie in one piece of memory.
const CHUNK_ITEMS: usize = 512;

/// A queue inside the process.
#[derive(Debug)]
pub struct MemoryQueue {
    state: Mutex<State>,
    items_max: usize,
}

impl Default for MemoryQueue {
    fn default() -> Self {
        Self::bounded(limits::QUEUE_ITEMS_MAX)
    }
}

impl MemoryQueue {
    /// An empty queue that holds up to `limits::QUEUE_ITEMS_MAX` waiting executions.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue that holds up to `items_max` waiting executions. A batch beyond that is refused whole, as
    /// unavailable; the store keeps it until there is room. What is released is always taken back.
    pub fn bounded(items_max: usize) -> Self {
        Self { state: Mutex::default(), items_max }
    }
}

#[async_trait::async_trait]
impl Queue for MemoryQueue {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        let mut state = self.state.lock();
        for runner in [Runner::Node, Runner::Worker] {
            let waiting = state.sides[slot(runner)].waiting;
            let more = batch.iter().filter(|item| item.action.runner() == runner).count();
            if more > 0 && waiting + more > self.items_max {
                let message = format!("the queue is full: {waiting} waiting, at most {}", self.items_max);
                return Err(Error::new(Kind::Unavailable, message).with_code("queue_full"));
            }
        }
        state.put(batch, End::Back);
        Ok(())
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        if want.limit == 0 {
            return Ok(Vec::new());
        }
        let mut place = Place { queue: self, runner: slot(want.runner), ticket: None };
        loop {
            let bell = {
                let mut state = self.state.lock();
                place.give_up(&mut state);
                let taken = state.take(want);
                if !taken.is_empty() {
                    // Nothing is awaited after the taking: a receiver dropped while it waits has taken nothing.
                    return Ok(taken);
                }
                place.stand_in_line(&mut state, want)
            };
            bell.notified().await;
        }
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        let mut state = self.state.lock();
        let side = &mut state.sides[slot(runner)];
        side.taken = side.taken.saturating_sub(executions.len());
        Ok(())
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        let mut state = self.state.lock();
        for item in &batch {
            let side = &mut state.sides[slot(item.action.runner())];
            side.taken = side.taken.saturating_sub(1);
        }
        state.put(batch, End::Front);
        Ok(())
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        let state = self.state.lock();
        let side = &state.sides[slot(runner)];
        Ok(Depth { waiting: side.waiting, taken: side.taken })
    }
}

fn slot(runner: Runner) -> usize {
    match runner {
        Runner::Node => 0,
        Runner::Worker => 1,
    }
}

/// A receiver's place in line; given up when it is dropped.
struct Place<'a> {
    queue: &'a MemoryQueue,
    runner: usize,
    ticket: Option<u64>,
}

impl Place<'_> {
    fn stand_in_line(&mut self, state: &mut State, want: &Receive) -> Arc<Notify> {
        state.tickets += 1;
        self.ticket = Some(state.tickets);
        let bell = Arc::new(Notify::new());
        let waiter = Waiter { pools: want.pools.clone(), limit: want.limit, bell: Arc::clone(&bell) };
        state.sides[self.runner].line.insert(state.tickets, waiter);
        bell
    }

    fn give_up(&mut self, state: &mut State) {
        if let Some(ticket) = self.ticket.take() {
            state.sides[self.runner].forget(ticket);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            let mut state = self.queue.state.lock();
            self.give_up(&mut state);
            // It may have been woken for something that it will not take now.
            state.sides[self.runner].wake();
        }
    }
}

/// At which end items are put.
#[derive(Copy, Clone, PartialEq)]
enum End {
    Front,
    Back,
}

#[derive(Debug, Default)]
struct State {
    /// By runner: what is for nodes never meets what is for external workers.
    sides: [Side; 2],
    tickets: u64,
}

/// What waits for one kind of runner, and which runners wait.
#[derive(Debug, Default)]
struct Side {
    /// None is empty.
    pools: BTreeMap<Arc<str>, Pool>,
    waiting: usize,
    taken: usize,
    /// Where the next receiver of several pools starts, so that small batches also reach every pool.
    turn: usize,
    /// Receivers that found nothing, by ticket: longest waiting first.
    line: BTreeMap<u64, Waiter>,
    /// Receivers that were woken and have not looked yet: for which pool, and how much of it.
    woken: HashMap<u64, (Arc<str>, usize)>,
}

#[derive(Debug)]
struct Waiter {
    pools: Vec<Arc<str>>,
    limit: usize,
    bell: Arc<Notify>,
}

impl State {
    fn put(&mut self, batch: Vec<Dispatch>, end: End) {
        match end {
            End::Back => batch.into_iter().for_each(|item| self.put_one(item, end)),
            // From the last to the first, so that the first is in front again.
            End::Front => batch.into_iter().rev().for_each(|item| self.put_one(item, end)),
        }
        self.sides.iter_mut().for_each(Side::wake);
    }

    fn put_one(&mut self, item: Dispatch, end: End) {
        let side = &mut self.sides[slot(item.action.runner())];
        side.waiting += 1;
        let pools = &mut side.pools;
        if let Some(pool) = pools.get_mut(&item.pool) {
            pool.put(item, end);
        } else {
            pools.entry(Arc::clone(&item.pool)).or_default().put(item, end);
        }
    }

    fn take(&mut self, want: &Receive) -> Vec<Dispatch> {
        let side = &mut self.sides[slot(want.runner)];
        let taken = side.take(want);
        side.waiting -= taken.len();
        side.taken += taken.len();
        // Somebody woken for one pool may have taken from another.
        side.wake();
        taken
    }
}

impl Side {
    fn take(&mut self, want: &Receive) -> Vec<Dispatch> {
        let pools = &mut self.pools;
        let mut names: Vec<Arc<str>> = if want.pools.is_empty() {
            pools.keys().cloned().collect()
        } else {
            want.pools.iter().filter(|name| pools.contains_key(*name)).cloned().collect()
        };
        let available: usize = names.iter().map(|name| pools[name].waiting).sum();
        let mut taken = Vec::with_capacity(available.min(want.limit));
        if names.len() > 1 {
            self.turn = (self.turn + 1) % names.len();
            names.rotate_left(self.turn);
        }
        // Even shares first; what one pool leaves goes to the others.
        while taken.len() < want.limit && !names.is_empty() {
            let share = (want.limit - taken.len()).div_ceil(names.len());
            names.retain(|name| {
                let Some(pool) = pools.get_mut(name) else { return false };
                pool.take(share.min(want.limit - taken.len()), &mut taken);
                let is_empty = pool.waiting == 0;
                if is_empty {
                    pools.remove(name);
                }
                !is_empty
            });
        }
        taken
    }

    /// Wakes as many of those in line as there is something for that nobody woken will take.
    fn wake(&mut self) {
        if self.line.is_empty() || self.pools.is_empty() {
            return;
        }
        let mut called = Vec::new();
        let mut open: Vec<_> = self.pools.iter_mut().filter(|(_, pool)| pool.waiting > pool.promised).collect();
        for (&ticket, waiter) in &self.line {
            if open.is_empty() {
                break;
            }
            let wants = |name: &Arc<str>| waiter.pools.is_empty() || waiter.pools.contains(name);
            let Some(i) = open.iter().position(|(name, _)| wants(name)) else {
                continue;
            };
            let (name, pool) = &mut open[i];
            let share = waiter.limit.min(pool.waiting - pool.promised);
            pool.promised += share;
            self.woken.insert(ticket, (Arc::clone(name), share));
            waiter.bell.notify_one();
            called.push(ticket);
            if pool.promised == pool.waiting {
                open.swap_remove(i);
            }
        }
        for ticket in called {
            self.line.remove(&ticket);
        }
    }

    /// Takes a receiver out of the line, or back what it was woken for.
    fn forget(&mut self, ticket: u64) {
        self.line.remove(&ticket);
        if let Some((name, share)) = self.woken.remove(&ticket)
            && let Some(pool) = self.pools.get_mut(&name)
        {
            // The pool may have been emptied and made anew since, which ended all promises.
            pool.promised = pool.promised.saturating_sub(share);
        }
    }
}

/// What waits for one pool: its priorities, and what each has coming to it.
#[derive(Debug, Default)]
struct Pool {
    waiting: usize,
    /// How much of it the receivers that were woken will take; at most a promise, which whoever comes first breaks.
    promised: usize,
    levels: [Level; Priority::ALL.len()],
    credits: [i32; Priority::ALL.len()],
}

impl Pool {
    fn put(&mut self, item: Dispatch, end: End) {
        self.waiting += 1;
        self.levels[usize::from(item.priority.code())].put(item, end);
    }

    fn take(&mut self, limit: usize, taken: &mut Vec<Dispatch>) {
        for _ in 0..limit {
            let Some(level) = self.next_level() else { return };
            let Some(item) = self.levels[level].take() else { return };
            if self.levels[level].turns.is_empty() {
                self.credits[level] = 0;
            }
            self.waiting -= 1;
            taken.push(item);
        }
    }

    /// Smooth weighted round robin: everybody waiting earns its weight, the richest goes and pays for all.
    fn next_level(&mut self) -> Option<usize> {
        let mut earned = 0;
        let mut richest = None;
        for (level, credit) in self.credits.iter_mut().enumerate() {
            if self.levels[level].turns.is_empty() {
                continue;
            }
            earned += WEIGHTS[level];
            *credit += WEIGHTS[level];
            if richest.is_none_or(|(_, most)| *credit > most) {
                richest = Some((level, *credit));
            }
        }
        let (level, _) = richest?;
        self.credits[level] -= earned;
        Some(level)
    }
}

/// What waits at one priority: a turn for every tenant that has something.
#[derive(Debug, Default)]
struct Level {
    turns: VecDeque<TenantId>,
    lines: HashMap<TenantId, Line>,
    /// How many more the tenant in front may take in its turn.
    deficit: u32,
}

impl Level {
    fn put(&mut self, item: Dispatch, end: End) {
        let line = self.lines.entry(item.tenant).or_default();
        if line.chunks.is_empty() {
            self.turns.push_back(item.tenant);
        }
        match end {
            End::Front => line.push_front(item),
            End::Back => line.push_back(item),
        }
    }

    fn take(&mut self) -> Option<Dispatch> {
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
        if self.turns.is_empty() {
            // The burst is over: give back what it grew to.
            *self = Self::default();
        }
        Some(item)
    }
}

/// What waits for one tenant at one priority, in order. No chunk is empty.
#[derive(Debug, Default)]
struct Line {
    chunks: VecDeque<VecDeque<Dispatch>>,
}

impl Line {
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

#[cfg(test)]
mod tests;
