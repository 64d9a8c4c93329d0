//! A target with limits, or with failures: slots with a line for those that find none, a rate, a circuit breaker.

use super::breaker::Breaker;
use super::{Reply, TargetStatus};
use campanile_model::action::ActionKind;
use campanile_model::capacity::Capacity;
use campanile_model::execution::Reason;
use campanile_model::queue::Dispatch;
use campanile_model::{ExecutionId, Timestamp};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Executions in a line; further ones look again later.
const LINE_MAX: usize = 100_000;
/// When those look again.
const LINE_FULL_MS: i64 = 30_000;
/// How far ahead turns of a rate are given. Those beyond look again: the rate may have changed by then.
const TURNS_MS: u64 = 60_000;
/// A target without limits whose last failure lies this far back is forgotten.
const FORGET_MS: u64 = 300_000;

/// A target with limits, or with failures.
#[derive(Default)]
pub(super) struct Target {
    slots: Option<u32>,
    /// Microseconds between starts.
    interval_us: Option<u64>,
    paused: bool,
    limited: bool,
    running: HashSet<ExecutionId>,
    line: VecDeque<Dispatch>,
    /// Who is in the line, and fired by which version.
    waiting: HashMap<ExecutionId, u32>,
    /// Called from the line and not back yet: each has a slot.
    called: HashSet<ExecutionId>,
    /// When the next start has its turn, in microseconds since the epoch.
    next_us: i64,
    /// Whose turn is when.
    turns: HashMap<ExecutionId, Timestamp>,
    breaker: Breaker,
    failed_at: Timestamp,
}

/// When an execution has its turn at its target.
pub(super) enum Turn {
    Now,
    /// It is in the line, or it runs and this is a second copy of it.
    Kept,
    At(Timestamp, Reason),
}

impl Target {
    pub(super) fn limit(&mut self, capacity: Option<&Capacity>, now: Timestamp) {
        let interval_us = capacity.and_then(|c| c.per_second_milli).map(|rate| 1_000_000_000 / rate.max(1));
        if interval_us != self.interval_us {
            // Turns of another rate mean nothing.
            self.turns.clear();
            self.next_us = 0;
        }
        self.turns.retain(|_, at| now.ms_since(*at) < TURNS_MS);
        self.interval_us = interval_us;
        self.slots = capacity.and_then(|capacity| capacity.slots);
        self.paused = capacity.is_some_and(|capacity| capacity.paused);
        self.limited = capacity.is_some();
    }

    /// Calls those in the line for whom there is a slot.
    pub(super) fn call(&mut self) -> impl Iterator<Item = Dispatch> + use<> {
        let used = self.running.len() + self.called.len();
        let free = self.slots.map_or(self.line.len(), |slots| (slots as usize).saturating_sub(used));
        let calls: Vec<Dispatch> = self.line.drain(..free.min(self.line.len())).collect();
        for call in &calls {
            self.waiting.remove(&call.execution);
            self.called.insert(call.execution);
        }
        calls.into_iter()
    }

    /// One that was called goes back to the queue for another reason.
    pub(super) fn uncall(&mut self, execution: ExecutionId) {
        self.called.remove(&execution);
    }

    pub(super) fn admit(&mut self, dispatch: &Dispatch, now: Timestamp, random: &mut impl FnMut() -> u64) -> Turn {
        let execution = dispatch.execution;
        if self.running.contains(&execution) || self.waits(dispatch) {
            return Turn::Kept;
        }
        let called = self.called.remove(&execution);
        if self.paused {
            return Turn::At(now.saturating_add_ms(1_000 + (random() % 1_000) as i64), Reason::Paused);
        }
        if dispatch.action == ActionKind::Webhook
            && let Err(at) = self.breaker.admit(execution, now, random())
        {
            return Turn::At(at, Reason::CircuitOpen);
        }
        let used = self.running.len() + self.called.len();
        let full = self.slots.is_some_and(|slots| used >= slots as usize);
        // Behind those who came first, but for one that was called.
        if full || (!called && !self.line.is_empty()) {
            self.breaker.forget(execution, now);
            return self.stand(dispatch, now);
        }
        if let Some(interval_us) = self.interval_us
            && let Some(turn) = self.turn(execution, now, interval_us, random)
        {
            self.breaker.forget(execution, now);
            return Turn::At(turn, Reason::RateLimited);
        }
        self.running.insert(execution);
        Turn::Now
    }

    /// Whether it is in the line. Fired anew by another version, it takes its own place there.
    fn waits(&mut self, dispatch: &Dispatch) -> bool {
        let Some(version) = self.waiting.get_mut(&dispatch.execution) else { return false };
        if *version != dispatch.job_version {
            *version = dispatch.job_version;
            let place = self.line.iter_mut().find(|other| other.execution == dispatch.execution);
            place.into_iter().for_each(|place| *place = dispatch.clone());
        }
        true
    }

    fn stand(&mut self, dispatch: &Dispatch, now: Timestamp) -> Turn {
        if self.line.len() >= LINE_MAX {
            return Turn::At(now.saturating_add_ms(LINE_FULL_MS), Reason::QuotaDeferred);
        }
        self.waiting.insert(dispatch.execution, dispatch.job_version);
        self.line.push_back(dispatch.clone());
        Turn::Kept
    }

    /// When it has its turn by the rate; `None` for now.
    fn turn(
        &mut self,
        execution: ExecutionId,
        now: Timestamp,
        interval_us: u64,
        random: &mut impl FnMut() -> u64,
    ) -> Option<Timestamp> {
        let turn = match self.turns.remove(&execution) {
            Some(turn) => turn,
            None => {
                let now_us = now.millis().saturating_mul(1_000);
                // A clock that went back does not stop everything until it is there again.
                let horizon_us = now_us.saturating_add(2 * TURNS_MS as i64 * 1_000);
                let turn_us = if self.next_us > horizon_us { now_us } else { self.next_us.max(now_us) };
                // Rounded up: a turn is never early.
                let turn = Timestamp::from_millis(turn_us.saturating_add(999) / 1_000).max(now);
                if turn.ms_since(now) > TURNS_MS {
                    let later_ms = TURNS_MS / 2 + random() % (TURNS_MS / 2);
                    return Some(now.saturating_add_ms(later_ms as i64));
                }
                self.next_us = turn_us.saturating_add(i64::try_from(interval_us).unwrap_or(i64::MAX));
                turn
            }
        };
        if turn <= now {
            return None;
        }
        self.turns.insert(execution, turn);
        Some(turn)
    }

    pub(super) fn leave(&mut self, execution: ExecutionId, reply: Option<Reply>, now: Timestamp) {
        self.running.remove(&execution);
        self.called.remove(&execution);
        self.turns.remove(&execution);
        match reply {
            Some(Reply::Answered) => self.breaker.succeeded(),
            Some(Reply::Failed) => {
                self.breaker.failed(execution, now);
                self.failed_at = now;
            }
            None => self.breaker.forget(execution, now),
        }
    }

    pub(super) fn knows(&self, execution: ExecutionId) -> bool {
        self.running.contains(&execution) || self.called.contains(&execution)
    }

    pub(super) fn holds(&self, execution: ExecutionId) -> bool {
        self.waiting.contains_key(&execution)
    }

    /// Why one that waits is not let through.
    pub(super) fn keeps(&self) -> Option<Reason> {
        let full = self.slots.is_some_and(|slots| self.running.len() + self.called.len() >= slots as usize);
        match () {
            () if self.paused => Some(Reason::Paused),
            () if self.breaker.is_open() => Some(Reason::CircuitOpen),
            () if full => Some(Reason::QuotaDeferred),
            () => None,
        }
    }

    pub(super) fn status(&self, name: Arc<str>) -> TargetStatus {
        let (running, waiting) = (self.running.len() + self.called.len(), self.line.len());
        TargetStatus { name, running, waiting, open: self.breaker.is_open() }
    }

    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let well = match self.breaker {
            Breaker::Closed { failures: 0 } => true,
            Breaker::Closed { .. } => now.ms_since(self.failed_at) > FORGET_MS,
            Breaker::Open { .. } | Breaker::Probing { .. } => false,
        };
        !self.limited && self.line.is_empty() && self.called.is_empty() && well
    }
}
