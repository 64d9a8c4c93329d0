//! What pools and targets can bear: who may start now. Shared by admit, which asks, and by all who know what has ended.
//!
//! Pools with slots and paused ones: the store decides, in the transaction of the claim; this is the node's knowledge of
//! it, so that it does not ask in vain. Targets (slots, a rate, a circuit breaker) are decided here alone. What may not
//! start goes one of three ways: *back* to the queue, when its pool is closed and nobody should receive from it; into a
//! *line* here, when its target has no free slot; *later*, when there is an instant to look again.
//!
//! Without limits and without failures it costs one load of a flag. What it knows is bounded by what runs and waits; a
//! target that nobody limits and that does well is forgotten.

mod breaker;
mod pool;
mod target;

use campanile_model::action::ActionKind;
use campanile_model::capacity::{Capacity, Count, Scope};
use campanile_model::execution::{Outcome, Reason};
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::queue::Dispatch;
use campanile_model::{ExecutionId, TenantId, Timestamp};
use parking_lot::Mutex;
use pool::Pool;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::{Target, Turn};
use tokio::sync::Notify;

/// The limits of pools and targets, and who runs against them.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    /// Whether there is anything to look up at all.
    busy: AtomicBool,
    /// Rung when a pool has opened.
    pub opened: Notify,
}

type Name = (TenantId, Arc<str>);

#[derive(Default)]
struct State {
    // In order, so that whom a refresh calls does not depend on chance.
    pools: BTreeMap<Name, Pool>,
    targets: BTreeMap<Name, Target>,
}

/// What became of a batch.
#[derive(Default)]
pub struct Admitted {
    pub go: Vec<Dispatch>,
    /// To be released to the queue.
    pub back: Vec<Dispatch>,
    /// To be looked at again at an instant, for a reason.
    pub later: Vec<(Dispatch, Timestamp, Reason)>,
    /// In a line here, or another copy of one that is here already: the queue may forget them.
    pub kept: Vec<ExecutionId>,
}

/// How an execution that was let through left.
#[derive(Copy, Clone, Debug)]
pub enum Left<'a> {
    /// It was not granted.
    Refused,
    Ended(&'a Outcome),
}

/// A target, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    pub name: Arc<str>,
    /// Attempts under way from here.
    pub running: usize,
    /// Executions in its line.
    pub waiting: usize,
    /// Whether its breaker keeps executions back.
    pub open: bool,
}

impl Gate {
    /// Takes the limits over, and what the store says is running. Returns executions that may go now: publish them.
    #[must_use]
    pub fn refresh(&self, capacities: &[Capacity], counts: &[Count], now: Timestamp) -> Vec<Dispatch> {
        let mut state = self.state.lock();
        let was_closed: Vec<Name> = state.closed().cloned().collect();
        let mut pools = std::mem::take(&mut state.pools);
        let mut limited: BTreeMap<Name, &Capacity> = BTreeMap::new();
        for capacity in capacities {
            let name = (capacity.tenant, Arc::from(capacity.name.as_str()));
            match capacity.scope {
                Scope::Target => drop(limited.insert(name, capacity)),
                Scope::Pool => {
                    let running = |count: &&Count| count.state == ExecutionState::Running;
                    let its = |count: &&Count| count.tenant == name.0 && count.pool == name.1;
                    let stored = counts.iter().filter(running).filter(its).map(|count| count.executions).sum();
                    let mut pool = pools.remove(&name).unwrap_or_default();
                    pool.limit(capacity, stored, now);
                    state.pools.insert(name, pool);
                }
            }
        }
        for name in limited.keys() {
            state.targets.entry(name.clone()).or_default();
        }
        let mut free = Vec::new();
        for (name, target) in &mut state.targets {
            target.limit(limited.get(name).copied(), now);
            free.extend(target.call());
        }
        state.targets.retain(|_, target| !target.is_idle(now));
        self.busy.store(!state.pools.is_empty() || !state.targets.is_empty(), Ordering::Release);
        if was_closed.iter().any(|name| !state.is_closed(name)) {
            self.opened.notify_waiters();
        }
        free
    }

    /// Pools that nobody should receive from.
    pub fn closed(&self) -> Vec<Arc<str>> {
        if !self.busy.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.state.lock().closed().map(|(_, name)| name.clone()).collect()
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
            if pool.as_ref().is_some_and(|pool| pool.closed().is_some()) {
                // One that was called from a line has its place there until it goes.
                if let Some(target) = targets.get_mut(&(dispatch.tenant, dispatch.target.clone())) {
                    target.uncall(dispatch.execution);
                }
                admitted.back.push(dispatch);
                continue;
            }
            let target = match dispatch.target.is_empty() {
                true => None,
                false => targets.get_mut(&(dispatch.tenant, dispatch.target.clone())),
            };
            match target.map_or(Turn::Now, |target| target.admit(&dispatch, now, &mut random)) {
                Turn::Now => {
                    if let Some(pool) = pool {
                        pool.enter(dispatch.execution, now);
                    }
                    admitted.go.push(dispatch);
                }
                Turn::Kept => admitted.kept.push(dispatch.execution),
                Turn::At(at, reason) => admitted.later.push((dispatch, at, reason)),
            }
        }
        admitted
    }

    /// Notes that an execution that was let through runs no more, and how its target did. Returns who may go in its place:
    /// publish it.
    #[must_use]
    pub fn done(&self, dispatch: &Dispatch, left: Left<'_>, now: Timestamp) -> Option<Dispatch> {
        let reply = match left {
            Left::Ended(outcome) => reply(dispatch.action, outcome),
            Left::Refused => None,
        };
        let failed = reply == Some(Reply::Failed) && !dispatch.target.is_empty();
        if !self.busy.load(Ordering::Acquire) && !failed {
            return None;
        }
        let mut state = self.state.lock();
        let State { pools, targets } = &mut *state;
        if let Some(pool) = pools.get_mut(&(dispatch.tenant, dispatch.pool.clone())) {
            let was_closed = pool.closed().is_some();
            pool.leave(dispatch.execution, matches!(left, Left::Ended(_)));
            if was_closed && pool.closed().is_none() {
                self.opened.notify_waiters();
            }
        }
        let name = (dispatch.tenant, dispatch.target.clone());
        if failed && !targets.contains_key(&name) {
            targets.insert(name.clone(), Target::default());
            self.busy.store(true, Ordering::Release);
        }
        let target = targets.get_mut(&name)?;
        target.leave(dispatch.execution, reply, now);
        target.call().next()
    }

    /// Notes that an execution of somebody else runs no more: it was ended in the store, or could not be published. Returns who
    /// may go in its place: publish it.
    #[must_use]
    pub fn forget(&self, execution: ExecutionId, now: Timestamp) -> Vec<Dispatch> {
        if !self.busy.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let State { pools, targets } = &mut *state;
        let was_closed = pools.values().filter(|pool| pool.closed().is_some()).count();
        pools.values_mut().for_each(|pool| pool.forget(execution));
        if pools.values().filter(|pool| pool.closed().is_some()).count() < was_closed {
            self.opened.notify_waiters();
        }
        let mut free = Vec::new();
        for target in targets.values_mut().filter(|target| target.knows(execution)) {
            target.leave(execution, None, now);
            free.extend(target.call());
        }
        free
    }

    /// Notes that the store has no slot left in a pool.
    pub fn full(&self, dispatch: &Dispatch) {
        let mut state = self.state.lock();
        if let Some(pool) = state.pools.get_mut(&(dispatch.tenant, dispatch.pool.clone())) {
            pool.fill();
        }
    }

    /// Why an execution that waits is not let through, as far as this node knows.
    pub fn keeps(&self, tenant: TenantId, pool: &Arc<str>, target: &Arc<str>) -> Option<Reason> {
        let state = self.state.lock();
        let closed = state.pools.get(&(tenant, pool.clone())).and_then(Pool::closed);
        closed.or_else(|| state.targets.get(&(tenant, target.clone()))?.keeps())
    }

    /// Whether an execution is in a line here.
    pub fn holds(&self, dispatch: &Dispatch) -> bool {
        if !self.busy.load(Ordering::Acquire) {
            return false;
        }
        let state = self.state.lock();
        let target = state.targets.get(&(dispatch.tenant, dispatch.target.clone()));
        target.is_some_and(|target| target.holds(dispatch.execution))
    }

    /// The targets that there is something to say about.
    pub fn targets(&self, tenant: TenantId) -> Vec<TargetStatus> {
        let state = self.state.lock();
        let its = state.targets.iter().filter(|((owner, _), _)| *owner == tenant);
        its.map(|((_, name), target)| target.status(name.clone())).collect()
    }
}

impl State {
    fn closed(&self) -> impl Iterator<Item = &Name> {
        self.pools.iter().filter(|(_, pool)| pool.closed().is_some()).map(|(name, _)| name)
    }

    fn is_closed(&self, name: &Name) -> bool {
        self.pools.get(name).is_some_and(|pool| pool.closed().is_some())
    }
}

/// What an outcome says about the target.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Reply {
    /// It is there, whatever it said.
    Answered,
    /// It is not, or it is overloaded.
    Failed,
}

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
