//! What every part of the engine is given. Passed first, everywhere, instead of long argument lists.

use crate::duty::Duty;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::worker::Running;
use crate::workers::Workers;
use campanile_model::Clock;
use campanile_model::action::Registry;
use campanile_model::coordinator::Coordinator;
use campanile_model::notify::Sender;
use campanile_model::queue::Queue;
use campanile_model::random::Random;
use campanile_model::store::{Retention, Store};
use std::sync::Arc;

/// The engine's surroundings.
#[derive(Clone)]
pub struct Context {
    /// The truth.
    pub store: Arc<dyn Store>,
    /// Where ready executions go.
    pub queue: Arc<dyn Queue>,
    /// Who owns what.
    pub coordinator: Arc<dyn Coordinator>,
    /// What jobs can do.
    pub actions: Registry,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for ids and jitter.
    pub random: Arc<dyn Random>,
    /// Who sends notifications.
    pub sender: Arc<dyn Sender>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What pools and targets can bear.
    pub gate: Arc<Gate>,
    /// The external workers that were heard of.
    pub workers: Arc<Workers>,
    /// What this node is charged with.
    pub duty: Arc<Duty>,
    /// The attempts that run in this process.
    pub running: Running,
    /// How long what is kept.
    pub retention: Arc<Retention>,
    /// How long a worker keeps an execution without a heartbeat.
    pub lease_ms: u64,
    /// This node's name, unique for every start: `node:` and something that no other start has.
    pub node: Arc<str>,
}
