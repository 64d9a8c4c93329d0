//! A coordinator with leases in simulated time, that is late, and now and then wrong.
//!
//! It hears of every member that runs and is not cut off. Who was not heard of for a lease is dead to it, and its
//! shards go to others, whatever that process still does: nobody waits for it to give them up. In some simulations a
//! process that is cut off learns by itself that it owns nothing; in the others it goes on. Only the epochs in the
//! store protect then.

use crate::process::Process;
use crate::switch::Mode;
use crate::world::World;
use campanile_cluster::assign::shards_of;
use campanile_model::coordinator::{Assignment, Coordinator, Introduction, Member, Roles};
use campanile_model::settings::SharedSettings;
use campanile_model::shard;
use campanile_model::{Error, Kind, Result, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// A member that is silent for longer is dead.
const LEASE_MS: u64 = 3_000;
/// How often members are heard.
const BEAT_MS: u64 = 500;
/// Who is cut off for longer gives up by itself, where it does.
const FENCE_MS: u64 = 2_000;
/// A clock that is further off owns nothing.
const OFF_MS: u64 = 500;

/// Who is alive, and who should own what.
pub struct Cluster {
    world: Arc<World>,
    /// Whether clocks are measured and corrected. A node that is alone has no other clock.
    pub measures: bool,
    /// Whether a process that is cut off gives its shards up.
    pub fences_itself: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<Arc<str>, Joined>,
    /// Who is told to own everything, and until when.
    lie: Option<(Arc<str>, u64)>,
}

struct Joined {
    process: Arc<Process>,
    heard_ms: u64,
    is_resigned: bool,
    is_off: bool,
    told: watch::Sender<Option<Assignment>>,
    /// What was last sent, maybe not yet heard.
    sent: Assignment,
}

impl Cluster {
    /// One without members.
    pub fn new(world: Arc<World>, measures: bool, fences_itself: bool) -> Arc<Self> {
        Arc::new(Self { world, measures, fences_itself, state: Mutex::default() })
    }

    /// Tells a process that it owns everything, for a while.
    pub fn lie_to(&self, name: Arc<str>, for_ms: u64) {
        self.state.lock().lie = Some((name, self.world.time.ms() + for_ms));
    }

    /// Hears, judges and tells until the simulation ends.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.beat();
            let ms = self.world.between(BEAT_MS / 2, BEAT_MS);
            self.world.time.sleep(ms).await;
        }
    }

    fn beat(self: &Arc<Self>) {
        let now = self.world.time.ms();
        let mut state = self.state.lock();
        for member in state.members.values_mut() {
            let process = &member.process;
            if process.switch.is_up() && process.has_coordinator() {
                member.heard_ms = now;
                if self.measures {
                    member.is_off = process.clock.measure().unsigned_abs() > OFF_MS;
                }
            }
        }
        let silent = |member: &Joined| now - member.heard_ms > LEASE_MS;
        state.members.retain(|_, member| !(member.process.switch.mode() == Mode::Dead && silent(member)));
        let live: Vec<Arc<str>> =
            state.members.iter().filter(|(_, member)| !silent(member)).map(|(name, _)| name.clone()).collect();
        let owns = |name: &&Arc<str>| state.members.get(*name).is_some_and(|m| !m.is_resigned && !m.is_off);
        let owners: Vec<&str> = live.iter().filter(owns).map(|name| &**name).collect();
        let live_nodes: Vec<String> = live.iter().map(|name| name.to_string()).collect();
        let lie = state.lie.clone().filter(|(_, until)| *until > now);
        let mut told: BTreeMap<Arc<str>, Assignment> = BTreeMap::new();
        for (name, member) in &state.members {
            let cut_ms = now - member.heard_ms;
            let shards: Vec<_> = match () {
                () if cut_ms > FENCE_MS && self.fences_itself && member.process.switch.is_up() => Vec::new(),
                // It hears nothing.
                () if cut_ms > 0 => continue,
                () if lie.as_ref().is_some_and(|(to, _)| to == name) => shard::all().collect(),
                () if owners.contains(&&**name) => shards_of(name, &owners).into_iter().collect(),
                () => Vec::new(),
            };
            told.insert(name.clone(), Assignment { shards, live_nodes: live_nodes.clone() });
        }
        for (name, assignment) in told {
            let Some(member) = state.members.get_mut(&name) else { continue };
            if member.sent == assignment {
                continue;
            }
            member.sent = assignment.clone();
            self.send(name, assignment);
        }
    }

    /// What is sent arrives after a while, unless something newer was sent.
    fn send(self: &Arc<Self>, name: Arc<str>, assignment: Assignment) {
        let ms = if self.world.chance(300) { self.world.between(0, 2_000) } else { self.world.between(0, 20) };
        let cluster = self.clone();
        tokio::spawn(async move {
            cluster.world.time.sleep(ms).await;
            let state = cluster.state.lock();
            let Some(member) = state.members.get(&name).filter(|member| member.sent == assignment) else { return };
            let (shards, live) = (assignment.shards.len(), assignment.live_nodes.len());
            cluster.world.note(&name, format_args!("is told {shards} shards, {live} alive"));
            member.told.send_replace(Some(assignment));
        });
    }
}

/// The coordinator as one process sees it.
pub struct SimCoordinator {
    cluster: Arc<Cluster>,
    process: Arc<Process>,
    told: watch::Sender<Option<Assignment>>,
    heard: tokio::sync::Mutex<watch::Receiver<Option<Assignment>>>,
}

impl SimCoordinator {
    /// Of a process that has not joined.
    pub fn new(cluster: Arc<Cluster>, process: Arc<Process>) -> Self {
        let (told, heard) = watch::channel(None);
        Self { cluster, process, told, heard: tokio::sync::Mutex::new(heard) }
    }
}

#[async_trait::async_trait]
impl Coordinator for SimCoordinator {
    async fn join(&self, _me: Introduction) -> Result<()> {
        self.process.switch.pass().await;
        let world = &self.cluster.world;
        world.time.sleep(world.between(1, 50)).await;
        self.process.switch.pass().await;
        if !self.process.has_coordinator() {
            return Err(Error::new(Kind::Unavailable, "the coordinator cannot be reached"));
        }
        let ahead_ms = if self.cluster.measures { self.process.clock.measure().unsigned_abs() } else { 0 };
        let member = Joined {
            process: self.process.clone(),
            heard_ms: world.time.ms(),
            is_resigned: false,
            is_off: ahead_ms > OFF_MS,
            told: self.told.clone(),
            sent: Assignment::default(),
        };
        self.cluster.state.lock().members.insert(self.process.name.clone(), member);
        Ok(())
    }

    async fn assignment(&self) -> Result<Option<Assignment>> {
        let mut heard = self.heard.lock().await;
        loop {
            if heard.changed().await.is_err() {
                return Ok(None);
            }
            self.process.switch.pass().await;
            if let Some(told) = heard.borrow_and_update().clone() {
                return Ok(Some(told));
            }
        }
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.process.switch.pass().await;
        let world = &self.cluster.world;
        world.time.sleep(world.between(0, 5)).await;
        self.process.switch.pass().await;
        if !self.process.has_coordinator() {
            return Err(Error::new(Kind::Unavailable, "the coordinator cannot be reached"));
        }
        let now = world.time.ms();
        let state = self.cluster.state.lock();
        let live = state.members.iter().filter(|(_, member)| now - member.heard_ms <= LEASE_MS);
        let member = |(name, _): (&Arc<str>, &Joined)| Member {
            node: name.to_string(),
            roles: Roles::ALL,
            version: String::new(),
            address: String::new(),
            started_at: Timestamp::MIN,
            silent_ms: 0,
            clock_offset_ms: 0,
            lag_ms: 0,
            shards: 0,
            settings: SharedSettings::default(),
        };
        Ok(live.map(member).collect())
    }

    fn report(&self, _lag_ms: u64) {}

    async fn resign(&self) -> Result<()> {
        self.process.switch.pass().await;
        if let Some(member) = self.cluster.state.lock().members.get_mut(&self.process.name) {
            member.is_resigned = true;
        }
        Ok(())
    }

    async fn leave(&self) -> Result<()> {
        self.process.switch.pass().await;
        self.cluster.state.lock().members.remove(&self.process.name);
        Ok(())
    }
}
