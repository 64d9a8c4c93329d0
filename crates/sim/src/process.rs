//! One process: a node between its start and its end, and the machine that it runs on.

use crate::switch::{NodeClock, Switch};
use crate::world::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// A machine: it stays when a process ends.
#[derive(Default)]
pub struct Machine {
    /// How far its clock is ahead.
    pub ahead_ms: Arc<AtomicI64>,
    /// Cut off from the store.
    pub no_store: AtomicBool,
    /// Cut off from the coordinator.
    pub no_coordinator: AtomicBool,
}

pub struct Process {
    /// Its name, unique for every start.
    pub name: Arc<str>,
    pub switch: Arc<Switch>,
    pub clock: Arc<NodeClock>,
    pub machine: Arc<Machine>,
}

impl Process {
    /// A process that starts now.
    pub fn new(world: &World, name: String, machine: Arc<Machine>) -> Arc<Self> {
        let switch = Arc::new(Switch::default());
        let clock = Arc::new(NodeClock::new(world.time.clone(), switch.clone(), machine.ahead_ms.clone()));
        Arc::new(Self { name: name.into(), switch, clock, machine })
    }

    /// Whether it reaches the store.
    pub fn has_store(&self) -> bool {
        !self.machine.no_store.load(Ordering::Relaxed)
    }

    /// Whether it reaches the coordinator.
    pub fn has_coordinator(&self) -> bool {
        !self.machine.no_coordinator.load(Ordering::Relaxed)
    }
}
