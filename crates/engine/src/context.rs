//! What every part of the engine is given. Passed first, everywhere, instead of long argument lists.

use crate::duty::Duty;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::outage::Outage;
use crate::running::Running;
use crate::workers::Workers;
use campanile_model::Clock;
use campanile_model::action::Registry;
use campanile_model::coordinator::Coordinator;
use campanile_model::notify::Sender;
use campanile_model::queue::Queue;
use campanile_model::random::Random;
use campanile_model::store::{Retention, Store};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is injected: everything outside of the engine.
#[derive(Clone)]
pub struct Injected {
    pub store: Arc<dyn Store>,
    /// Where ready executions go.
    pub queue: Arc<dyn Queue>,
    pub coordinator: Arc<dyn Coordinator>,
    /// What jobs can do.
    pub actions: Registry,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for ids and jitter.
    pub random: Arc<dyn Random>,
    pub sender: Arc<dyn Sender>,
    pub metrics: Arc<Metrics>,
    /// This node's name, unique for every start: `node:` and something that no other start has.
    pub node: Arc<str>,
}

/// What every part is given: what was injected, and what the parts of this node know together.
#[derive(Clone)]
pub struct Context {
    pub store: Arc<dyn Store>,
    /// Where ready executions go.
    pub queue: Arc<dyn Queue>,
    pub coordinator: Arc<dyn Coordinator>,
    /// What jobs can do.
    pub actions: Registry,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for ids and jitter.
    pub random: Arc<dyn Random>,
    pub sender: Arc<dyn Sender>,
    pub metrics: Arc<Metrics>,
    /// What pools and targets can bear.
    pub gate: Arc<Gate>,
    /// The external workers that were heard of.
    pub workers: Arc<Workers>,
    /// What this node is charged with.
    pub duty: Arc<Duty>,
    /// The attempts that run in this process.
    pub running: Running,
    /// Whether the store is away.
    pub outage: Arc<Mutex<Outage>>,
    /// How long what is kept.
    pub retention: Arc<Retention>,
    /// How long a worker keeps an execution without a heartbeat.
    pub lease_ms: u64,
    pub node: Arc<str>,
}

impl Context {
    /// Of a node that has just started, with this many slots.
    pub(crate) fn new(injected: Injected, slots: usize, retention: Retention, lease_ms: u64) -> Self {
        let Injected { store, queue, coordinator, actions, clock, random, sender, metrics, node } = injected;
        Self {
            store,
            queue,
            coordinator,
            actions,
            clock,
            random,
            sender,
            metrics,
            gate: Arc::default(),
            workers: Arc::default(),
            duty: Arc::default(),
            running: Running::new(slots),
            outage: Arc::default(),
            retention: Arc::new(retention),
            lease_ms,
            node,
        }
    }
}
