//! What the loops of a worker share: its options, its attempts, its room, and what the server last told it to do.

use super::handlers::Handlers;
use super::identity;
use super::running::Registry;
use crate::Client;
use crate::wire::Directive;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// How long nothing is claimed after the server asked for quiet.
const QUIET: Duration = Duration::from_secs(5);
/// Ended attempts that may wait for their answer, beyond those that run. More would only grow: nothing is claimed then.
pub(super) const UNANSWERED_MAX: usize = 1_000;

/// How a worker works.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub worker_id: String,
    pub pools: Vec<String>,
    pub concurrency: usize,
    pub grace: Duration,
    pub cancel_grace: Duration,
    pub timeout_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            worker_id: identity::worker_id(),
            pools: Vec::new(),
            concurrency: 1,
            grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            timeout_grace: Duration::ZERO,
        }
    }
}

/// What a worker did in its life.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Executions that it was given.
    pub claimed: u64,
    /// Attempts whose end was accepted.
    pub completed: u64,
    /// Attempts that were somebody else's by the time they ended, or that were stopped because of it.
    pub stale: u64,
    /// Executions that it gave back, because it could not start them.
    pub released: u64,
    /// Ends that nobody took: the server was away when the worker ended, or refused them for good.
    pub unanswered: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub claimed: AtomicU64,
    pub completed: AtomicU64,
    pub stale: AtomicU64,
    pub released: AtomicU64,
    pub unanswered: AtomicU64,
}

/// What the loops share.
#[derive(Debug)]
pub(super) struct Shared {
    pub client: Client,
    pub options: Options,
    pub handlers: Handlers,
    pub registry: Registry,
    pub counters: Counters,
    /// One permit per attempt that may run.
    pub slots: Arc<Semaphore>,
    /// One permit per attempt that runs or waits for the answer to its end.
    pub unanswered: Arc<Semaphore>,
    draining: watch::Sender<bool>,
    quiet_until: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(client: Client, options: Options, handlers: Handlers) -> Arc<Self> {
        Arc::new(Self {
            client,
            handlers,
            registry: Registry::default(),
            counters: Counters::default(),
            slots: Arc::new(Semaphore::new(options.concurrency)),
            unanswered: Arc::new(Semaphore::new(options.concurrency + UNANSWERED_MAX)),
            draining: watch::Sender::new(false),
            quiet_until: Mutex::new(None),
            options,
        })
    }

    /// Does what the server says.
    pub(super) fn follow(&self, directive: Directive) {
        match directive {
            Directive::Run => {}
            Directive::Quiet => self.quiet(QUIET),
            Directive::Drain => {
                if !self.is_draining() {
                    tracing::info!("the server asked this worker to end");
                }
                self.drain();
            }
        }
    }

    /// Claims nothing for this long.
    pub(super) fn quiet(&self, duration: Duration) {
        *self.quiet_until.lock() = Some(Instant::now() + duration);
    }

    /// Until when nothing is claimed, if that is so.
    pub(super) fn quiet_until(&self) -> Option<Instant> {
        self.quiet_until.lock().filter(|until| *until > Instant::now())
    }

    /// From now on nothing is claimed.
    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until the worker should end.
    pub(super) async fn draining(&self) {
        // The sender is ours, so that it cannot be gone.
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }

    pub(super) fn counts(&self) -> Counts {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            claimed: read(&counters.claimed),
            completed: read(&counters.completed),
            stale: read(&counters.stale),
            released: read(&counters.released),
            unanswered: read(&counters.unanswered),
        }
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
