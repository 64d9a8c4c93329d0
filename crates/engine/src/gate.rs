//! Before the claim: what may start now, by the limits of pools and targets.
//!
//! Pools with slots and paused ones: the store decides, in the transaction of the claim; this is the node's knowledge of
//! it, so that it does not ask in vain. Targets (slots, a rate, a circuit breaker) are decided here alone. What may not
//! start goes one of three ways: *back* to the queue, when its pool is closed and nobody should receive from it; into a
//! *line* here, when its target has no free slot; *later*, when there is an instant to look again.
//!
//! Without limits and without failures it costs one relaxed load.

use crate::breaker::Breaker;
use campanile_model::action::ActionKind;
use campanile_model::capacity::{Capacity, Count, Scope};
use campanile_model::execution::{Outcome, Reason};
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::queue::Dispatch;
use campanile_model::{ExecutionId, TenantId, Timestamp};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Executions in the line of one target; further ones look again later.
const LINE_MAX: usize = 100_000;
/// When those look again.
const LINE_FULL_MS: i64 = 5_000;

/// The limits of pools and targets, and who runs against them.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    /// Whether there is anything to look up at all.
    busy: AtomicBool,
    /// Rung when a pool may have opened.
    pub opened: Notify,
}

type Name = (TenantId, Arc<str>);

#[derive(Default)]
struct State {
    pools: HashMap<Name, Pool>,
    targets: HashMap<Name, Target>,
}

/// A pool with limits.
#[derive(Default)]
struct Pool {
    slots: Option<u32>,
    paused: bool,
    /// Let through by this node and not over.
    running: HashSet<ExecutionId>,
    /// Running by the store's last word, this node's included.
    stored: u64,
}

impl Pool {
    fn closed(&self) -> Option<Reason> {
        if self.paused {
            return Some(Reason::Paused);
        }
        let used = self.stored.max(self.running.len() as u64);
        self.slots.filter(|&slots| used >= u64::from(slots)).map(|_| Reason::QuotaDeferred)
    }
}

/// A target with limits, or with failures.
#[derive(Default)]
struct Target {
    slots: Option<u32>,
    /// Microseconds between starts.
    interval_us: Option<u64>,
    paused: bool,
    limited: bool,
    running: HashSet<ExecutionId>,
    line: VecDeque<Dispatch>,
    waiting: HashSet<ExecutionId>,
    /// When the next start has its turn, in microseconds since the epoch.
    next_us: i64,
    /// Whose turn is when.
    turns: HashMap<ExecutionId, Timestamp>,
    breaker: Breaker,
}

/// What became of a batch.
#[derive(Default)]
pub struct Admitted {
    /// May be claimed.
    pub go: Vec<Dispatch>,
    /// To be released to the queue.
    pub back: Vec<Dispatch>,
    /// To be looked at again at an instant, for a reason.
    pub later: Vec<(Dispatch, Timestamp, Reason)>,
}

/// A pool or target, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Attempts under way from here.
    pub running: usize,
    /// Executions in its line.
    pub waiting: usize,
    /// Whether its breaker keeps executions back.
    pub open: bool,
}

impl Gate {
    /// Takes the limits over, and what the store says is running.
    pub fn refresh(&self, capacities: &[Capacity], counts: &[Count]) {
        let mut state = self.state.lock();
        let mut pools = std::mem::take(&mut state.pools);
        state.targets.values_mut().for_each(|target| {
            (target.slots, target.interval_us, target.paused, target.limited) = (None, None, false, false);
        });
        for capacity in capacities {
            let name = (capacity.tenant, Arc::from(capacity.name.as_str()));
            match capacity.scope {
                Scope::Pool => {
                    let mut pool = pools.remove(&name).unwrap_or_default();
                    (pool.slots, pool.paused) = (capacity.slots, capacity.paused);
                    let running = |count: &&Count| count.state == ExecutionState::Running;
                    let mine = |count: &&Count| count.tenant == name.0 && count.pool == name.1;
                    pool.stored = counts.iter().filter(running).filter(mine).map(|count| count.executions).sum();
                    state.pools.insert(name, pool);
                }
                Scope::Target => {
                    let target = state.targets.entry(name).or_default();
                    (target.slots, target.paused, target.limited) = (capacity.slots, capacity.paused, true);
                    target.interval_us = capacity.per_second_milli.map(|rate| 1_000_000_000 / rate.max(1));
                }
            }
        }
        state.targets.retain(|_, target| !target.is_idle());
        self.busy.store(!state.pools.is_empty() || !state.targets.is_empty(), Ordering::Release);
        drop(state);
        self.opened.notify_waiters();
    }

    /// Pools that nobody should receive from.
    pub fn closed(&self) -> Vec<Arc<str>> {
        if !self.busy.load(Ordering::Acquire) {
            return Vec::new();
        }
        let state = self.state.lock();
        state.pools.iter().filter(|(_, pool)| pool.closed().is_some()).map(|((_, name), _)| name.clone()).collect()
    }

    /// Decides about a batch.
    pub fn admit(&self, batch: Vec<Dispatch>, now: Timestamp, mut random: impl FnMut() -> u64) -> Admitted {
        let mut admitted = Admitted::default();
        if !self.busy.load(Ordering::Acquire) {
            admitted.go = batch;
            return admitted;
        }
        let mut state = self.state.lock();
        let State { pools, targets } = &mut *state;
        for dispatch in batch {
            let pool = pools.get_mut(&(dispatch.tenant, dispatch.pool.clone()));
            if pool.as_ref().is_some_and(|pool| pool.closed().is_some() && !pool.running.contains(&dispatch.execution))
            {
                admitted.back.push(dispatch);
                continue;
            }
            if let Some(target) = targets.get_mut(&(dispatch.tenant, dispatch.target.clone())) {
                match target.admit(&dispatch, now, &mut random) {
                    Turn::Now => {}
                    Turn::InLine => {
                        target.waiting.insert(dispatch.execution);
                        target.line.push_back(dispatch);
                        continue;
                    }
                    Turn::Known => continue,
                    Turn::At(at, reason) => {
                        admitted.later.push((dispatch, at, reason));
                        continue;
                    }
                }
            }
            if let Some(pool) = pool {
                pool.running.insert(dispatch.execution);
            }
            admitted.go.push(dispatch);
        }
        admitted
    }

    /// Notes that an execution that was let through runs no more, and how its target did; returns who may go in its place.
    /// `outcome` is `None` when it never ran.
    pub fn done(&self, dispatch: &Dispatch, outcome: Option<&Outcome>, now: Timestamp) -> Option<Dispatch> {
        let reply = outcome.and_then(|outcome| reply(dispatch.action, outcome));
        if !self.busy.load(Ordering::Acquire) && reply != Some(Reply::Failed) {
            return None;
        }
        let mut state = self.state.lock();
        let State { pools, targets } = &mut *state;
        if let Some(pool) = pools.get_mut(&(dispatch.tenant, dispatch.pool.clone())) {
            pool.running.remove(&dispatch.execution);
            pool.stored = pool.stored.saturating_sub(1);
            self.opened.notify_waiters();
        }
        let name = (dispatch.tenant, dispatch.target.clone());
        if reply == Some(Reply::Failed) && !targets.contains_key(&name) {
            targets.insert(name.clone(), Target::default());
            self.busy.store(true, Ordering::Release);
        }
        let target = targets.get_mut(&name)?;
        target.running.remove(&dispatch.execution);
        match reply {
            Some(Reply::Answered) => target.breaker.succeeded(),
            Some(Reply::Failed) => target.breaker.failed(dispatch.execution, now),
            None => target.breaker.forget(dispatch.execution, now),
        }
        let next = target.line.pop_front();
        if let Some(next) = &next {
            target.waiting.remove(&next.execution);
        }
        if target.is_idle() {
            targets.remove(&name);
        }
        next
    }

    /// Why an execution that waits is not let through, as far as this node knows.
    pub fn keeps(&self, tenant: TenantId, pool: &Arc<str>, target: &Arc<str>) -> Option<Reason> {
        let state = self.state.lock();
        let closed = state.pools.get(&(tenant, pool.clone())).and_then(Pool::closed);
        closed.or_else(|| {
            let target = state.targets.get(&(tenant, target.clone()))?;
            let full = target.slots.is_some_and(|slots| target.running.len() >= slots as usize);
            match () {
                () if target.paused => Some(Reason::Paused),
                () if target.breaker.is_open() => Some(Reason::CircuitOpen),
                () if full => Some(Reason::QuotaDeferred),
                () => None,
            }
        })
    }

    /// Whether an execution is in a line here.
    pub fn holds(&self, dispatch: &Dispatch) -> bool {
        if !self.busy.load(Ordering::Acquire) {
            return false;
        }
        let state = self.state.lock();
        let target = state.targets.get(&(dispatch.tenant, dispatch.target.clone()));
        target.is_some_and(|target| target.waiting.contains(&dispatch.execution))
    }

    /// The targets that there is something to say about.
    pub fn targets(&self, tenant: TenantId) -> Vec<TargetStatus> {
        let state = self.state.lock();
        let mine = state.targets.iter().filter(|((owner, _), _)| *owner == tenant);
        mine.map(|((_, name), target)| TargetStatus {
            name: name.clone(),
            running: target.running.len(),
            waiting: target.line.len(),
            open: target.breaker.is_open(),
        })
        .collect()
    }
}

/// When an execution has its turn at its target.
enum Turn {
    Now,
    InLine,
    /// It is in the line already: this is a second copy of it.
    Known,
    At(Timestamp, Reason),
}

impl Target {
    fn admit(&mut self, dispatch: &Dispatch, now: Timestamp, random: &mut impl FnMut() -> u64) -> Turn {
        let execution = dispatch.execution;
        if self.running.contains(&execution) {
            return Turn::Now;
        }
        if self.waiting.contains(&execution) {
            return Turn::Known;
        }
        if self.paused {
            return Turn::At(now.saturating_add_ms(1_000 + (random() % 1_000) as i64), Reason::Paused);
        }
        if dispatch.action == ActionKind::Webhook
            && let Err(at) = self.breaker.admit(execution, now, random())
        {
            return Turn::At(at, Reason::CircuitOpen);
        }
        if self.slots.is_some_and(|slots| self.running.len() >= slots as usize) {
            self.breaker.forget(execution, now);
            return match self.line.len() < LINE_MAX {
                true => Turn::InLine,
                false => Turn::At(now.saturating_add_ms(LINE_FULL_MS), Reason::QuotaDeferred),
            };
        }
        if let Some(interval_us) = self.interval_us {
            let turn = match self.turns.remove(&execution) {
                Some(turn) => turn,
                None => self.reserve(now, interval_us),
            };
            if turn > now {
                self.breaker.forget(execution, now);
                self.turns.insert(execution, turn);
                return Turn::At(turn, Reason::RateLimited);
            }
        }
        self.running.insert(execution);
        Turn::Now
    }

    /// The next turn by the rate; it is taken by this.
    fn reserve(&mut self, now: Timestamp, interval_us: u64) -> Timestamp {
        let now_us = now.millis().saturating_mul(1_000);
        let turn_us = self.next_us.max(now_us);
        self.next_us = turn_us.saturating_add(i64::try_from(interval_us).unwrap_or(i64::MAX));
        // Rounded up: a turn is never early.
        Timestamp::from_millis(turn_us.saturating_add(999) / 1_000).max(now)
    }

    fn is_idle(&self) -> bool {
        !self.limited && self.line.is_empty() && self.breaker == Breaker::default()
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Reply {
    /// The target is there, whatever it said.
    Answered,
    /// It is not, or it is overloaded.
    Failed,
}

/// What an outcome says about the target.
fn reply(action: ActionKind, outcome: &Outcome) -> Option<Reply> {
    match outcome {
        _ if action != ActionKind::Webhook => None,
        Outcome::Succeeded { .. } | Outcome::Failed { retryable: false, .. } => Some(Reply::Answered),
        Outcome::Failed { .. } | Outcome::TimedOut { .. } => Some(Reply::Failed),
        Outcome::Lost | Outcome::Cancelled | Outcome::Snoozed { .. } | Outcome::Released => None,
    }
}

#[cfg(test)]
mod tests;
