//! What every part of the engine is given. Passed first, everywhere, instead of long argument lists.

use crate::metrics::Metrics;
use campanile_model::Clock;
use campanile_model::action::Registry;
use campanile_model::coordinator::Coordinator;
use campanile_model::queue::Queue;
use campanile_model::random::Random;
use campanile_model::store::Store;
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
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// This node's name, unique for every start: `node:` and something that no other start has.
    pub node: Arc<str>,
}
