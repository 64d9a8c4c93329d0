//! The attempts that run in this process, and the slots that they have.

use campanile_model::{ExecutionId, limits};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// The attempts that run in this process.
#[derive(Clone)]
pub struct Running {
    slots: [Arc<Semaphore>; Lane::ALL.len()],
    slots_max: usize,
    attempts: Arc<Mutex<Attempts>>,
}

/// What a loop receives and runs, each with slots of its own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Lane {
    /// What is critical, of all pools but `long`. The next lane takes it too; here it waits neither for slots nor for the claims
    /// of a large batch.
    Critical,
    /// All pools but `long`.
    Short,
    /// The pool `long`: long work never takes the place of short work.
    Long,
}

impl Lane {
    /// All that a node has.
    pub const ALL: [Lane; 3] = [Lane::Critical, Lane::Short, Lane::Long];
}

#[derive(Default)]
struct Attempts {
    /// By execution, with its fence: an older attempt that ends late must not take a newer one's place.
    by_execution: HashMap<ExecutionId, (u64, AbortHandle)>,
    /// Nothing starts any more.
    closed: bool,
}

impl Default for Running {
    fn default() -> Self {
        Self::new(limits::SLOTS_MAX)
    }
}

impl Running {
    /// None yet; at most `slots` at the same time, a quarter of them for the pool `long`, a few for what is critical. Every lane has
    /// at least one.
    pub fn new(slots: usize) -> Self {
        let (critical, long) = ((slots / 16).max(1), (slots / 4).max(1));
        let short = slots.saturating_sub(critical + long).max(1);
        let slots = Lane::ALL.map(|lane| match lane {
            Lane::Critical => critical,
            Lane::Short => short,
            Lane::Long => long,
        });
        let slots_max = slots.iter().sum();
        Self { slots: slots.map(|slots| Arc::new(Semaphore::new(slots))), slots_max, attempts: Arc::default() }
    }

    /// The slots of a lane.
    pub(crate) fn slots_of(&self, lane: Lane) -> Arc<Semaphore> {
        self.slots[lane as usize].clone()
    }

    /// Starts an attempt, unless nothing starts any more. It ends with `ended`, and cannot before it is known here: the map is
    /// locked until its handle is in it.
    pub(crate) fn start(&self, (execution, fence): (ExecutionId, u64), start: impl FnOnce() -> AbortHandle) {
        let mut attempts = self.attempts.lock();
        if !attempts.closed {
            let handle = start();
            attempts.by_execution.insert(execution, (fence, handle));
        }
    }

    /// The attempt with this fence has ended by itself.
    pub(crate) fn ended(&self, (execution, fence): (ExecutionId, u64)) {
        let mut attempts = self.attempts.lock();
        if attempts.by_execution.get(&execution).is_some_and(|(newest, _)| *newest == fence) {
            attempts.by_execution.remove(&execution);
        }
    }

    /// Stops the attempt of a cancelled execution.
    pub fn abort(&self, execution: ExecutionId) {
        if let Some((_, handle)) = self.attempts.lock().by_execution.remove(&execution) {
            handle.abort();
        }
    }

    /// Whether the attempt with this fence runs here.
    pub fn knows(&self, execution: ExecutionId, fence: u64) -> bool {
        self.attempts.lock().by_execution.get(&execution).is_some_and(|(running, _)| *running == fence)
    }

    /// Stops all attempts, and lets none start any more. The next start finds their node gone and tries them again.
    pub fn close(&self) {
        let mut attempts = self.attempts.lock();
        attempts.closed = true;
        attempts.by_execution.drain().for_each(|(_, (_, handle))| handle.abort());
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots_max
    }

    /// Slots in use: attempts that run, or are about to.
    pub fn len(&self) -> usize {
        self.slots_max - self.slots.iter().map(|slots| slots.available_permits()).sum::<usize>()
    }

    /// Whether none is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
