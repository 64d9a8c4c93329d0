//! What goes wrong, when and for how long, drawn from the seed; and how all of it is healed.
//!
//! Every simulation draws which kinds of faults it has at all: a world in which everything fails at once never gets far
//! enough to fail in an interesting way.

use crate::fleet::Fleet;
use crate::process::Machine;
use crate::switch::Mode;
use crate::world::{Odds, World};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A kind of fault.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A process is killed, and started again later.
    Kill,
    /// A node is stopped in good order, and started again later.
    Stop,
    /// A process stands still.
    Pause,
    /// A machine is cut off from the store.
    NoStore,
    /// A machine is cut off from the coordinator.
    NoCoordinator,
    /// A machine is cut off from both.
    CutOff,
    /// A machine's clock jumps.
    Jump,
    /// The coordinator tells a node that it owns everything.
    Lie,
    /// The store refuses calls, and is silent about what became of writes.
    Flaky,
    /// The store is slow.
    Slow,
    /// Messages are lost, late and repeated.
    Messages,
    /// Targets fail and hang.
    Targets,
}

impl Fault {
    pub const ALL: [Fault; 12] = [
        Fault::Kill,
        Fault::Stop,
        Fault::Pause,
        Fault::NoStore,
        Fault::NoCoordinator,
        Fault::CutOff,
        Fault::Jump,
        Fault::Lie,
        Fault::Flaky,
        Fault::Slow,
        Fault::Messages,
        Fault::Targets,
    ];
}

/// The faults that a simulation has.
pub fn choose(world: &World) -> Vec<Fault> {
    let chosen: Vec<Fault> = Fault::ALL.into_iter().filter(|_| world.chance(450)).collect();
    if chosen.is_empty() { vec![Fault::Kill] } else { chosen }
}

/// What goes wrong all the time, under these faults.
fn background(world: &World, faults: &[Fault]) -> Odds {
    let some = |fault, from, to| if faults.contains(&fault) { world.between(from, to) } else { 0 };
    Odds {
        refused: some(Fault::Flaky, 0, 10),
        unknown_done: some(Fault::Flaky, 0, 15),
        unknown_undone: some(Fault::Flaky, 0, 15),
        slow: some(Fault::Slow, 0, 10),
        lost: some(Fault::Messages, 0, 100),
        twice: some(Fault::Messages, 0, 100),
        late: some(Fault::Messages, 0, 100),
        unpublished: some(Fault::Messages, 0, 20),
        unheard: some(Fault::Messages, 0, 800),
        failing: some(Fault::Targets, 0, 200),
        refusing: some(Fault::Targets, 0, 20),
        hanging: some(Fault::Targets, 0, 50),
    }
}

/// Lets things go wrong until `until_ms`.
pub async fn run(fleet: Arc<Fleet>, faults: Vec<Fault>, until_ms: u64) {
    let world = fleet.world.clone();
    let calm = background(&world, &faults);
    *world.odds.lock() = calm.clone();
    let pace_ms = world.between(2_000, 20_000);
    loop {
        world.time.sleep(world.between(pace_ms / 4, pace_ms)).await;
        if world.time.ms() >= until_ms || !world.is_fine() {
            return;
        }
        fleet.check_parts();
        let fault = faults[(world.draw() % faults.len() as u64) as usize];
        // All of them end before everything is healed.
        let left_ms = until_ms - world.time.ms();
        let (at, for_ms) = ((world.draw() % fleet.len() as u64) as usize, world.between(200, 20_000).min(left_ms));
        world.note("nemesis", format_args!("{fault:?} on {at} for {for_ms} ms"));
        tokio::spawn(strike(fleet.clone(), fault, at, for_ms, calm.clone()));
    }
}

async fn strike(fleet: Arc<Fleet>, fault: Fault, at: usize, for_ms: u64, calm: Odds) {
    let world = fleet.world.clone();
    let machine: &Machine = fleet.machine(at);
    let cut = |store: bool, coordinator: bool, cut: bool| {
        if store {
            machine.no_store.store(cut, Ordering::Relaxed);
        }
        if coordinator {
            machine.no_coordinator.store(cut, Ordering::Relaxed);
        }
    };
    match fault {
        Fault::Kill => {
            fleet.kill(at);
            world.time.sleep(for_ms).await;
            fleet.start(at);
        }
        Fault::Stop => {
            fleet.stop(at).await;
            world.time.sleep(for_ms).await;
            fleet.start(at);
        }
        Fault::Pause => {
            let Some(process) = fleet.process(at) else { return };
            world.sometimes("node paused");
            process.switch.set(Mode::Paused);
            world.time.sleep(for_ms).await;
            process.switch.set(Mode::Up);
            world.note(&process.name, format_args!("goes on"));
        }
        Fault::NoStore | Fault::NoCoordinator | Fault::CutOff => {
            world.sometimes("node cut off");
            let (store, coordinator) = (fault != Fault::NoCoordinator, fault != Fault::NoStore);
            cut(store, coordinator, true);
            world.time.sleep(for_ms).await;
            cut(store, coordinator, false);
        }
        Fault::Jump => {
            world.sometimes("clock jumped");
            let widest = [50, 2_000, 60_000, 3_600_000][(world.draw() % 4) as usize];
            let by = world.between(0, 2 * widest) as i64 - widest as i64;
            world.note("nemesis", format_args!("clock of {at} by {by} ms"));
            machine.ahead_ms.store(by, Ordering::Relaxed);
            world.time.sleep(for_ms).await;
            machine.ahead_ms.store(0, Ordering::Relaxed);
        }
        Fault::Lie => {
            let Some(process) = fleet.process(at) else { return };
            world.sometimes("coordinator lied");
            fleet.cluster.lie_to(process.name.clone(), for_ms);
        }
        Fault::Flaky | Fault::Slow | Fault::Messages | Fault::Targets => {
            {
                let mut odds = world.odds.lock();
                match fault {
                    Fault::Flaky => (odds.refused, odds.unknown_done, odds.unknown_undone) = (200, 150, 150),
                    Fault::Slow => odds.slow = 400,
                    Fault::Messages => (odds.lost, odds.twice, odds.late) = (400, 300, 300),
                    _ => (odds.failing, odds.hanging) = (700, 200),
                }
            }
            world.time.sleep(for_ms).await;
            *world.odds.lock() = calm;
        }
    }
}

/// Ends all faults: everything runs, everybody reaches everybody, all clocks are right.
pub fn heal(fleet: &Arc<Fleet>) {
    let world = &fleet.world;
    world.note("nemesis", format_args!("heals"));
    *world.odds.lock() = Odds::default();
    for at in 0..fleet.len() {
        let machine = fleet.machine(at);
        machine.no_store.store(false, Ordering::Relaxed);
        machine.no_coordinator.store(false, Ordering::Relaxed);
        machine.ahead_ms.store(0, Ordering::Relaxed);
        match fleet.process(at) {
            Some(process) => process.switch.set(Mode::Up),
            None => fleet.start(at),
        }
    }
}
