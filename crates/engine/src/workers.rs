//! The external workers that this node has heard of, and what they were told to do.
//!
//! Only memory: who asks for work is known again within a minute of a restart. Nothing is decided by it but directives and
//! answers to people.

use campanile_model::store::{AttemptFence, RunningAttempt};
use campanile_model::{ExecutionId, Timestamp, limits};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A worker that was heard of is counted as there for this long: longer than from one heartbeat to the next. One whose claim
/// waits is there as long as it does.
const PRESENT_MS: u64 = 2 * limits::HEARTBEAT_MS;
/// One that was not heard of for this long is forgotten.
const FORGET_MS: u64 = 3_600_000;

/// What a worker is to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Directive {
    #[default]
    Run,
    /// Take nothing new; go on with what runs, and ask again.
    Quiet,
    /// Take nothing new, finish, and end.
    Drain,
}

impl Directive {
    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Directive::Run => "RUN",
            Directive::Quiet => "QUIET",
            Directive::Drain => "DRAIN",
        }
    }
}

/// What is known of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// What it calls itself.
    pub id: Arc<str>,
    /// The pools it asks for; none means all.
    pub pools: Vec<Arc<str>>,
    /// The handlers it has; none means all.
    pub handlers: Vec<Arc<str>>,
    /// What it is written with.
    pub sdk: Option<String>,
    /// How many executions it last asked for.
    pub capacity: usize,
    /// How many it last sent a heartbeat for.
    pub running: usize,
    /// When it was first heard of.
    pub first_seen_at: Timestamp,
    /// When it was last heard of.
    pub last_seen_at: Timestamp,
    /// What it is to do.
    pub directive: Directive,
    /// Claims of it that wait.
    pub waiting: usize,
}

#[derive(Default)]
pub struct Workers {
    known: Mutex<BTreeMap<Arc<str>, WorkerStatus>>,
    held: Mutex<HashMap<ExecutionId, RunningAttempt>>,
}

/// Attempts remembered at most; of others the store knows.
const HELD_MAX: usize = 100_000;

/// How a worker introduces itself with a claim.
#[derive(Clone, Debug, Default)]
pub struct Introduction {
    /// What it calls itself.
    pub worker: Arc<str>,
    /// The pools it asks for.
    pub pools: Vec<Arc<str>>,
    /// The handlers it has.
    pub handlers: Vec<Arc<str>>,
    /// What it is written with.
    pub sdk: Option<String>,
    /// How many executions it asks for.
    pub capacity: usize,
}

impl Workers {
    pub fn asks(&self, intro: &Introduction, now: Timestamp) -> Directive {
        let mut workers = self.known.lock();
        let worker = entry(&mut workers, &intro.worker, now);
        worker.pools.clone_from(&intro.pools);
        worker.handlers.clone_from(&intro.handlers);
        worker.sdk.clone_from(&intro.sdk);
        worker.capacity = intro.capacity;
        worker.directive
    }

    /// Notes that a claim of a worker waits, or that it does no more: it was answered, or hung up.
    pub fn waits(&self, id: &Arc<str>, waits: bool, now: Timestamp) {
        let mut workers = self.known.lock();
        let worker = entry(&mut workers, id, now);
        worker.waiting = if waits { worker.waiting + 1 } else { worker.waiting.saturating_sub(1) };
    }

    /// Notes a heartbeat for `running` executions.
    pub fn beats(&self, id: &Arc<str>, running: usize, now: Timestamp) -> Directive {
        let mut workers = self.known.lock();
        let worker = entry(&mut workers, id, now);
        worker.running = running;
        worker.directive
    }

    /// Tells a worker what to do; `false` when nobody knows it.
    pub fn direct(&self, id: &str, directive: Directive) -> bool {
        let mut workers = self.known.lock();
        workers.get_mut(id).map(|worker| worker.directive = directive).is_some()
    }

    /// What a worker is to do.
    pub fn directive(&self, id: &str) -> Directive {
        self.known.lock().get(id).map_or(Directive::Run, |worker| worker.directive)
    }

    /// Those heard of within the last hour.
    pub fn list(&self) -> Vec<WorkerStatus> {
        self.known.lock().values().cloned().collect()
    }

    /// Remembers attempts that were handed out, so that their ends need not be looked up. Only a shortcut: what a cancel or a
    /// lost lease has changed meanwhile, the store refuses, and then it is asked.
    pub fn hold(&self, attempts: impl Iterator<Item = RunningAttempt>) {
        let mut held = self.held.lock();
        if held.len() >= HELD_MAX {
            held.clear();
        }
        held.extend(attempts.map(|attempt| (attempt.fence.execution, attempt)));
    }

    /// Whether this attempt is remembered.
    pub fn holds(&self, fence: &AttemptFence) -> bool {
        self.held.lock().get(&fence.execution).is_some_and(|held| held.fence == *fence)
    }

    /// Takes what is remembered of these.
    pub fn take(&self, executions: &[ExecutionId]) -> Vec<Option<RunningAttempt>> {
        let mut held = self.held.lock();
        executions.iter().map(|execution| held.remove(execution)).collect()
    }

    /// How many of those present would take an execution of this pool and handler.
    pub fn serving(&self, pool: &str, handler: &str, now: Timestamp) -> usize {
        let takes = |names: &[Arc<str>], name: &str| names.is_empty() || names.iter().any(|n| &**n == name);
        let workers = self.known.lock();
        let present = workers.values().filter(|w| w.is_present(now));
        present
            .filter(|w| w.directive == Directive::Run && takes(&w.pools, pool) && takes(&w.handlers, handler))
            .count()
    }
}

impl WorkerStatus {
    /// Whether it is there, as far as anybody knows.
    pub fn is_present(&self, now: Timestamp) -> bool {
        self.waiting > 0 || now.ms_since(self.last_seen_at) <= PRESENT_MS
    }
}

fn entry<'a>(workers: &'a mut BTreeMap<Arc<str>, WorkerStatus>, id: &Arc<str>, now: Timestamp) -> &'a mut WorkerStatus {
    if !workers.contains_key(id) {
        workers.retain(|_, worker| now.ms_since(worker.last_seen_at) < FORGET_MS);
        while workers.len() >= limits::WORKERS_MAX {
            let oldest = workers.values().min_by_key(|worker| worker.last_seen_at).map(|worker| worker.id.clone());
            oldest.map(|id| workers.remove(&id));
        }
    }
    let worker = workers.entry(id.clone()).or_insert_with(|| WorkerStatus {
        id: id.clone(),
        pools: Vec::new(),
        handlers: Vec::new(),
        sdk: None,
        capacity: 0,
        running: 0,
        first_seen_at: now,
        last_seen_at: now,
        directive: Directive::Run,
        waiting: 0,
    });
    if now.ms_since(worker.last_seen_at) > PRESENT_MS {
        // It was away: whoever has its name now was told nothing.
        worker.directive = Directive::Run;
    }
    worker.last_seen_at = now;
    worker
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intro(worker: &str, pools: &[&str], handlers: &[&str]) -> Introduction {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
        Introduction { worker: worker.into(), pools: names(pools), handlers: names(handlers), ..Default::default() }
    }

    #[test]
    fn serving_counts_those_present_that_would_take_it() {
        let workers = Workers::default();
        let at = |s: i64| Timestamp::from_millis(s * 1_000);
        workers.asks(&intro("any", &[], &[]), at(0));
        workers.asks(&intro("mail", &["short"], &["send"]), at(0));
        assert_eq!(workers.serving("short", "send", at(1)), 2);
        assert_eq!(workers.serving("short", "bill", at(1)), 1);
        workers.direct("any", Directive::Quiet);
        assert_eq!(workers.serving("long", "send", at(1)), 0);
        assert_eq!(workers.serving("short", "send", at(21)), 0, "gone");
        workers.waits(&"mail".into(), true, at(21));
        assert_eq!(workers.serving("short", "send", at(80)), 1, "its claim waits");
        workers.waits(&"mail".into(), false, at(80));
        assert_eq!(workers.serving("short", "send", at(101)), 0);
        assert!(!workers.direct("nobody", Directive::Drain));
    }

    #[test]
    fn those_not_heard_of_for_long_are_forgotten() {
        let workers = Workers::default();
        workers.beats(&"old".into(), 1, Timestamp::from_millis(0));
        workers.beats(&"new".into(), 1, Timestamp::from_millis(FORGET_MS as i64));
        assert_eq!(workers.list().len(), 1);
    }
}
