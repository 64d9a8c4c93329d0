//! The nodes: each slot is a machine on which one process after the other runs the real engine.

use crate::cluster::{Cluster, SimCoordinator};
use crate::process::{Machine, Process};
use crate::queue::SimQueue;
use crate::store::SimStore;
use crate::switch::Mode;
use crate::target::{Nobody, Nothing, Pulled, Sink, Target};
use crate::world::World;
use campanile_engine::{Handle, Injected, Options, Service};
use campanile_model::action::{Action, Registry};
use campanile_model::random::SplitMix;
use campanile_queue::memory::MemoryQueue;
use parking_lot::Mutex;
use std::sync::Arc;

/// How long running attempts get when a node stops in good order.
const DRAIN_MS: u64 = 3_000;

pub struct Fleet {
    pub world: Arc<World>,
    /// Who is told to own what.
    pub cluster: Arc<Cluster>,
    /// What arrived at the targets.
    pub sink: Arc<Sink>,
    /// The queue that all share, where they do.
    shared: Option<Arc<MemoryQueue>>,
    slots: Vec<Slot>,
    /// What was killed, kept so that nothing ends in good order because it is dropped.
    graves: Mutex<Vec<Service>>,
}

struct Slot {
    machine: Arc<Machine>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    starts: u64,
    process: Option<Arc<Process>>,
    service: Option<Service>,
    handle: Option<Handle>,
}

impl Fleet {
    /// So many machines, with nothing running on them.
    pub fn new(world: Arc<World>, cluster: Arc<Cluster>, machines: usize, shares_queue: bool) -> Arc<Self> {
        let slot = |_| Slot { machine: Arc::default(), state: Mutex::default() };
        let shared = shares_queue.then(|| Arc::new(MemoryQueue::new()));
        let slots = (0..machines).map(slot).collect();
        Arc::new(Self { world, cluster, sink: Arc::default(), shared, slots, graves: Mutex::default() })
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn machine(&self, at: usize) -> &Machine {
        &self.slots[at].machine
    }

    /// The process on a machine, if one was started and has not ended.
    pub fn process(&self, at: usize) -> Option<Arc<Process>> {
        self.slots[at].state.lock().process.clone()
    }

    /// The handle of a node that runs.
    pub fn handle(&self, at: usize) -> Option<Handle> {
        let state = self.slots[at].state.lock();
        let is_up = state.process.as_ref().is_some_and(|process| process.switch.is_up());
        state.handle.clone().filter(|_| is_up)
    }

    /// Starts a process where none is, and again until it has started: a node whose start fails is started again.
    pub fn start(self: &Arc<Self>, at: usize) {
        let fleet = self.clone();
        tokio::spawn(async move {
            while fleet.process(at).is_none() {
                if fleet.try_start(at).await {
                    return;
                }
                fleet.world.time.sleep(1_000).await;
            }
        });
    }

    async fn try_start(&self, at: usize) -> bool {
        let process = {
            let mut state = self.slots[at].state.lock();
            state.starts += 1;
            let name = format!("node:{}-{}", (b'a' + at as u8) as char, state.starts);
            let process = Process::new(&self.world, name, self.slots[at].machine.clone());
            state.process = Some(process.clone());
            process
        };
        self.world.note(&process.name, format_args!("starts"));
        let options = Options { slots: 16, drain_ms: DRAIN_MS, ..Options::default() };
        let started = Service::start(self.injected(&process), options).await;
        let mut state = self.slots[at].state.lock();
        let is_current = state.process.as_ref().is_some_and(|current| Arc::ptr_eq(current, &process));
        match started {
            _ if !is_current => true,
            Ok(service) => {
                state.handle = Some(service.handle());
                state.service = Some(service);
                true
            }
            Err(error) => {
                self.world.note(&process.name, format_args!("cannot start: {error}"));
                process.switch.set(Mode::Dead);
                state.process = None;
                false
            }
        }
    }

    fn injected(&self, process: &Arc<Process>) -> Injected {
        let world = &self.world;
        let queue = SimQueue {
            world: world.clone(),
            process: process.clone(),
            inner: self.shared.clone().unwrap_or_default(),
            shared: self.shared.is_some(),
        };
        let target = Target { world: world.clone(), process: process.clone(), sink: self.sink.clone() };
        let nothing = Nothing { sink: self.sink.clone() };
        Injected {
            store: Arc::new(SimStore { world: world.clone(), process: process.clone() }),
            queue: Arc::new(queue),
            coordinator: Arc::new(SimCoordinator::new(self.cluster.clone(), process.clone())),
            actions: Registry::new([
                Arc::new(target) as Arc<dyn Action>,
                Arc::new(nothing) as Arc<dyn Action>,
                Arc::new(Pulled) as Arc<dyn Action>,
            ]),
            clock: process.clock.clone(),
            random: Arc::new(SplitMix::new(world.draw())),
            sender: Arc::new(Nobody),
            metrics: Arc::default(),
            node: process.name.clone(),
        }
    }

    /// Ends the process on a machine, as kill -9 does. What it was doing stays where it is.
    pub fn kill(&self, at: usize) {
        let mut state = self.slots[at].state.lock();
        let Some(process) = state.process.take() else { return };
        self.world.note(&process.name, format_args!("is killed"));
        self.world.sometimes("node killed");
        process.switch.set(Mode::Dead);
        self.graves.lock().extend(state.service.take());
        state.handle = None;
    }

    /// Stops the node on a machine in good order; it is killed if it takes too long.
    pub async fn stop(&self, at: usize) {
        let (process, service) = {
            let mut state = self.slots[at].state.lock();
            state.handle = None;
            (state.process.clone(), state.service.take())
        };
        let (Some(process), Some(service)) = (process, service) else { return };
        self.world.note(&process.name, format_args!("is stopped"));
        self.world.sometimes("node stopped in good order");
        tokio::select! {
            biased;
            stopped = service.stop() => {
                if let Err(error) = stopped {
                    self.world.violated(format!("{} could not stop: {error}", process.name));
                }
            }
            () = self.world.time.sleep(60_000) => {}
        }
        process.switch.set(Mode::Dead);
        let mut state = self.slots[at].state.lock();
        if state.process.as_ref().is_some_and(|current| Arc::ptr_eq(current, &process)) {
            state.process = None;
        }
    }

    /// No part of a node may end by itself.
    pub fn check_parts(&self) {
        for slot in &self.slots {
            let state = slot.state.lock();
            if let (Some(process), Some(service)) = (&state.process, &state.service)
                && service.has_failed()
            {
                self.world.violated(format!("a part of {} ended by itself", process.name));
            }
        }
    }
}
