//! The whole engine in one thread, on simulated time, from one seed.
//!
//! Several nodes run the real engine on the real SQLite store, which is in memory and without threads. Everything else
//! is simulated: time, the network to the store, the queue, the coordinator, the targets. First everything goes wrong
//! that the seed has drawn, and what must always hold is watched; then everything is healed, and all that was promised
//! must get done. The same seed gives the same trace, byte for byte. `docs/internals/simulation.md` tells how to use
//! it.

/// Simulated time.
pub mod time;
/// Whether a process runs, and what its clock shows.
pub mod switch;
/// What everything in one simulation shares.
pub mod world;
/// A process and its machine.
pub mod process;
/// The store over a bad network.
pub mod store;
/// A bad queue.
pub mod queue;
/// A bad coordinator.
pub mod cluster;
/// Bad targets, and what arrived there.
pub mod target;
/// The nodes.
pub mod fleet;
/// Callers.
pub mod clients;
/// What goes wrong.
pub mod nemesis;
/// Which version of a job governs an instant.
pub mod versions;
/// What must hold at every moment.
pub mod monitor;
/// What must be true in the end.
pub mod judge;

use clients::Clients;
use cluster::Cluster;
use fleet::Fleet;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use world::World;

/// What came of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Which one.
    pub seed: u64,
    /// Hash of its whole trace.
    pub hash: u64,
    /// Events in its trace.
    pub events: u64,
    /// Milliseconds of simulated time.
    pub ms: u64,
    /// Executions at the end.
    pub executions: usize,
    /// Requests that arrived at targets.
    pub arrived: usize,
    /// What was reached, and how often.
    pub seen: BTreeMap<&'static str, u64>,
    /// What happened that must not.
    pub violations: Vec<String>,
}

/// How long everything has to get done after it was healed.
const PATIENCE_MS: u64 = 180_000;

/// Runs one simulation; shows its trace if asked to.
pub fn run(seed: u64, shown: bool) -> Report {
    watch_panics();
    let world = World::new(seed, shown);
    let time = world.time.clone();
    let before = PANICS.get();
    let (executions, arrived) = time.run(simulate(world.clone()));
    if PANICS.get() > before {
        world.violated("something panicked".into());
    }
    let (hash, events) = world.digest();
    let (seen, violations) = (world.seen(), world.violations());
    Report { seed, hash, events, ms: world.time.ms(), executions, arrived, seen, violations }
}

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Counts panics, wherever they are caught.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

async fn simulate(world: Arc<World>) -> (usize, usize) {
    let machines = [1, 2, 3, 3, 3, 4][world.between(0, 5) as usize];
    let (fences_itself, shares_queue) = (world.chance(500), machines > 1 && world.chance(500));
    let faults = nemesis::choose(&world);
    let until_ms = world.between(60_000, 240_000);
    world.note("world", format_args!("{machines} machines, {faults:?}, until {until_ms} ms"));
    let cluster = Cluster::new(world.clone(), machines > 1, fences_itself);
    let fleet = Fleet::new(world.clone(), cluster.clone(), machines, shares_queue);
    tokio::spawn(cluster.run());
    (0..machines).for_each(|at| fleet.start(at));
    let ends_ms = (until_ms / 2, until_ms + 20_000);
    let clients = Clients::new(fleet.clone(), ends_ms);
    let jobs = world.between(4, 20);
    tokio::spawn(clients.clone().run(jobs, until_ms * 3 / 4));
    nemesis::run(fleet.clone(), faults, until_ms).await;
    nemesis::heal(&fleet);
    if !world.is_fine() {
        return (0, fleet.sink.len());
    }
    let executions = settle(&world, &fleet, &clients, until_ms + 20_000).await;
    (executions, fleet.sink.len())
}

/// Waits until everything is done, or for too long.
async fn settle(world: &World, fleet: &Fleet, clients: &Clients, ends_ms: u64) -> usize {
    let mut deadline_ms = world.time.ms().max(ends_ms) + PATIENCE_MS;
    let mut least_open = u64::MAX;
    loop {
        world.time.sleep(3_000).await;
        let now = world.time.ms();
        let asked = clients.asked.lock().clone();
        let open = judge::open(world).await;
        if now >= ends_ms && open < least_open {
            // Runs that wait for each other end one by one.
            (least_open, deadline_ms) = (open, deadline_ms.max(now + PATIENCE_MS));
        }
        if world.is_fine() && now < deadline_ms && (open > 0 || now < ends_ms) {
            continue;
        }
        // A clock that was ahead may have put something off.
        let wake_ms = judge::last_wake(world).await.ms_since(time::START);
        if world.is_fine() && now >= deadline_ms && wake_ms + PATIENCE_MS > deadline_ms {
            deadline_ms = wake_ms + PATIENCE_MS;
            continue;
        }
        let (wrong, executions) = judge::judge(world, &asked, &fleet.sink).await;
        if !wrong.is_empty() && world.is_fine() && now < deadline_ms {
            continue;
        }
        wrong.into_iter().for_each(|wrong| world.violated(wrong));
        fleet.check_parts();
        return executions;
    }
}
