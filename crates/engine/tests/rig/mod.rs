//! A whole engine on a real store, with a clock that moves only when a test says so and an action that answers as told.

// Each test file uses its own part of it.
#![allow(dead_code)]

use campanile_cluster::solo::Solo;
use campanile_engine::accept::{Create, Draft};
use campanile_engine::jobs::{Accepted, Conditions};
use campanile_engine::metrics::Metrics;
use campanile_engine::run::pull::{Finish, Finishing, Pulled as PulledAttempt};
use campanile_engine::workers::Introduction;
use campanile_engine::{Handle, Injected, Options, Service};
use campanile_model::action::{Action, ActionKind, ActionSpec, Registry, Work};
use campanile_model::coordinator::{Assignment, Coordinator, Introduction as Joining, Member, Roles};
use campanile_model::execution::{Execution, Outcome};
use campanile_model::filter::Filter;
use campanile_model::job::{Definition, Job};
use campanile_model::lifecycle::State;
use campanile_model::notify::Sender;
use campanile_model::queue::{Dispatch, Queue};
use campanile_model::random::SplitMix;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::Schedule;
use campanile_model::settings::SharedSettings;
use campanile_model::shard::ShardId;
use campanile_model::store::{ExecutionQuery, JobKey, Store};
use campanile_model::{Clock, ExecutionId, FieldError, JobId, TenantId, Timestamp};
use campanile_queue::memory::MemoryQueue;
use campanile_store::sqlite::{self, SqliteStore};
use campanile_testkit::clock::ManualClock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

pub const TENANT: TenantId = TenantId::DEFAULT;

/// A start that an action saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub execution: ExecutionId,
    pub fire_at: Timestamp,
    pub attempt: u32,
    pub fence: u64,
    pub payload: String,
    pub at: Timestamp,
}

type Script = Box<dyn Fn(&Work) -> Outcome + Send + Sync>;

/// A webhook that goes nowhere: it records, and answers by its script.
pub struct Scripted {
    clock: ManualClock,
    seen: Arc<Mutex<Vec<Seen>>>,
    waiting: Arc<AtomicUsize>,
    script: Script,
}

#[async_trait::async_trait]
impl Action for Scripted {
    fn kind(&self) -> ActionKind {
        ActionKind::Webhook
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn target(&self, _config: &str) -> String {
        "http://target".into()
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn run(&self, work: &Work) -> Outcome {
        self.seen.lock().push(Seen {
            execution: work.execution,
            fire_at: work.fire_at,
            attempt: work.attempt,
            fence: work.fence,
            payload: work.definition.payload.to_string(),
            at: self.clock.now(),
        });
        match &*work.definition.action.config {
            HANG => std::future::pending().await,
            _ => (self.script)(work),
        }
    }
}

/// An instant action that records too.
struct Instant {
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[async_trait::async_trait]
impl Action for Instant {
    fn kind(&self) -> ActionKind {
        ActionKind::Noop
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn instant(&self, work: &Dispatch, now: Timestamp) -> Option<Outcome> {
        let seen = Seen {
            execution: work.execution,
            fire_at: work.fire_at,
            attempt: work.attempt + 1,
            fence: 0,
            payload: String::new(),
            at: now,
        };
        self.seen.lock().push(seen);
        Some(Outcome::Succeeded { response: None })
    }

    async fn run(&self, _work: &Work) -> Outcome {
        Outcome::Succeeded { response: None }
    }
}

/// What external workers pull; the config is the handler's name, as JSON.
struct Pulled;

#[async_trait::async_trait]
impl Action for Pulled {
    fn kind(&self) -> ActionKind {
        ActionKind::Worker
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Ok(config.to_owned())
    }

    fn target(&self, config: &str) -> String {
        config.trim_matches('"').to_owned()
    }

    async fn run(&self, _work: &Work) -> Outcome {
        panic!("a node never runs a worker's handler")
    }
}

/// Takes notifications as told: (url, id, body) of each.
#[derive(Default)]
pub struct Letterbox {
    pub taken: Mutex<Vec<(String, String, String)>>,
    pub status: std::sync::atomic::AtomicU16,
}

#[async_trait::async_trait]
impl Sender for Letterbox {
    fn check(&self, url: &str) -> Result<(), String> {
        url.starts_with("http").then_some(()).ok_or_else(|| "no URL".into())
    }

    async fn send(&self, url: &str, id: &str, body: String) -> Result<u16, String> {
        self.taken.lock().push((url.into(), id.into(), body));
        match self.status.load(std::sync::atomic::Ordering::Relaxed) {
            0 => Ok(204),
            status => Ok(status),
        }
    }
}

/// A coordinator that says what a test tells it to.
pub struct Told {
    says: watch::Sender<Option<Assignment>>,
    heard: tokio::sync::Mutex<watch::Receiver<Option<Assignment>>>,
}

impl Told {
    /// One that says nothing yet.
    pub fn new() -> Arc<Self> {
        let (says, mut heard) = watch::channel(None);
        heard.mark_changed();
        Arc::new(Self { says, heard: tokio::sync::Mutex::new(heard) })
    }

    /// From now on the node should own these shards, and these nodes are alive.
    pub fn tell(&self, shards: impl IntoIterator<Item = ShardId>, live_nodes: &[&str]) {
        let live_nodes = live_nodes.iter().map(|&node| node.into()).collect();
        self.says.send_replace(Some(Assignment { shards: shards.into_iter().collect(), live_nodes }));
    }
}

#[async_trait::async_trait]
impl Coordinator for Told {
    async fn join(&self, _me: Joining) -> Result<(), campanile_model::Error> {
        Ok(())
    }

    async fn assignment(&self) -> Result<Option<Assignment>, campanile_model::Error> {
        let mut heard = self.heard.lock().await;
        loop {
            if heard.changed().await.is_err() {
                return Ok(None);
            }
            if let Some(told) = heard.borrow_and_update().clone() {
                return Ok(Some(told));
            }
        }
    }

    async fn members(&self) -> Result<Vec<Member>, campanile_model::Error> {
        let live = self.says.borrow().clone().unwrap_or_default().live_nodes;
        let member = |node: String| Member {
            node,
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
        Ok(live.into_iter().map(member).collect())
    }

    fn report(&self, _lag_ms: u64) {}

    async fn resign(&self) -> Result<(), campanile_model::Error> {
        Ok(())
    }

    async fn leave(&self) -> Result<(), campanile_model::Error> {
        Ok(())
    }
}

/// The engine and everything around it.
pub struct Rig {
    pub clock: ManualClock,
    pub store: Arc<dyn Store>,
    pub handle: Handle,
    pub metrics: Arc<Metrics>,
    pub letters: Arc<Letterbox>,
    /// How many attempts the webhook says have not begun.
    pub waiting: Arc<AtomicUsize>,
    service: Mutex<Option<Service>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    dir: Arc<tempfile::TempDir>,
}

impl Rig {
    pub async fn new() -> Self {
        Self::scripted(|_| Outcome::Succeeded { response: None }).await
    }

    pub async fn scripted(script: impl Fn(&Work) -> Outcome + Send + Sync + 'static) -> Self {
        let clock = ManualClock::new("2026-11-16T02:00:00Z".parse().unwrap());
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::start(clock, dir, Arc::default(), Box::new(script)).await
    }

    /// A node that owns what its coordinator tells it, on a store of its own.
    pub async fn told(coordinator: Arc<Told>) -> Self {
        let clock = ManualClock::new("2026-11-16T02:00:00Z".parse().unwrap());
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let store: Arc<dyn Store> = Arc::new(open(dir.path(), &clock).await);
        let script = Box::new(|_: &Work| Outcome::Succeeded { response: None });
        let queue = Arc::new(MemoryQueue::new());
        Self::on(store, queue, "node:a", coordinator, clock, dir, Arc::default(), script).await
    }

    /// The same with a queue that other nodes may share.
    pub async fn sharing(
        queue: Arc<dyn Queue>,
        coordinator: Arc<Told>,
        script: impl Fn(&Work) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let clock = ManualClock::new("2026-11-16T02:00:00Z".parse().unwrap());
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let store: Arc<dyn Store> = Arc::new(open(dir.path(), &clock).await);
        Self::on(store, queue, "node:a", coordinator, clock, dir, Arc::default(), Box::new(script)).await
    }

    /// Another node on the same store, with the same clock; what either sees, both see.
    pub async fn beside(&self, node: &str, coordinator: Arc<Told>) -> Self {
        self.beside_on(Arc::new(MemoryQueue::new()), node, coordinator).await
    }

    /// The same with a queue that nodes share.
    pub async fn beside_on(&self, queue: Arc<dyn Queue>, node: &str, coordinator: Arc<Told>) -> Self {
        let script = Box::new(|_: &Work| Outcome::Succeeded { response: None });
        let (store, clock, dir) = (self.store.clone(), self.clock.clone(), self.dir.clone());
        Self::on(store, queue, node, coordinator, clock, dir, self.seen.clone(), script).await
    }

    async fn start(
        clock: ManualClock,
        dir: Arc<tempfile::TempDir>,
        seen: Arc<Mutex<Vec<Seen>>>,
        script: Script,
    ) -> Self {
        let store: Arc<dyn Store> = Arc::new(open(dir.path(), &clock).await);
        let node = format!("node:test-{}", clock.monotonic_ms());
        let (queue, coordinator) = (Arc::new(MemoryQueue::new()), Arc::new(Solo::new()));
        Self::on(store, queue, &node, coordinator, clock, dir, seen, script).await
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a node")]
    async fn on(
        store: Arc<dyn Store>,
        queue: Arc<dyn Queue>,
        node: &str,
        coordinator: Arc<dyn Coordinator>,
        clock: ManualClock,
        dir: Arc<tempfile::TempDir>,
        seen: Arc<Mutex<Vec<Seen>>>,
        script: Script,
    ) -> Self {
        let metrics = Arc::new(Metrics::default());
        let letters = Arc::new(Letterbox::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        let scripted = Scripted { clock: clock.clone(), seen: seen.clone(), waiting: waiting.clone(), script };
        let injected = Injected {
            store: store.clone(),
            queue,
            coordinator,
            actions: Registry::new([
                Arc::new(scripted) as Arc<dyn Action>,
                Arc::new(Instant { seen: seen.clone() }) as Arc<dyn Action>,
                Arc::new(Pulled) as Arc<dyn Action>,
            ]),
            clock: Arc::new(clock.clone()),
            random: Arc::new(SplitMix::new(42)),
            sender: letters.clone(),
            metrics: metrics.clone(),
            node: node.into(),
        };
        let service = Service::start(injected, Options { slots: 64, drain_ms: 0, ..Options::default() }).await.unwrap();
        let handle = service.handle();
        let service = Mutex::new(Some(service));
        let rig = Self { clock, store, handle, metrics, letters, waiting, service, seen, dir };
        rig.until("ready", || rig.handle.is_ready()).await;
        rig
    }

    /// Stops as a deploy does, and starts again.
    pub async fn restart(self, script: impl Fn(&Work) -> Outcome + Send + Sync + 'static) -> Self {
        self.stop().await;
        let (clock, dir, seen) = (self.clock.clone(), self.dir.clone(), self.seen.clone());
        drop(self);
        clock.advance(1);
        Self::start(clock, dir, seen, Box::new(script)).await
    }

    /// Stops the engine; its handle still answers.
    pub async fn stop(&self) {
        let service = self.service.lock().take();
        service.unwrap().stop().await.unwrap();
    }

    /// Waits, in real time, for something that the engine's threads do by themselves.
    pub async fn until(&self, what: &str, done: impl Fn() -> bool) {
        for _ in 0..5_000 {
            if done() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{what}: did not happen in 10 s");
    }

    /// Lets time pass in small steps, giving the engine's threads a moment after each, and at the end until they rest.
    pub async fn pass(&self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(50);
            self.clock.advance(step);
            left -= step;
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        let mut before = self.metrics.counters();
        let mut calm = 0;
        while calm < 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = self.metrics.counters();
            calm = if now == before { calm + 1 } else { 0 };
            before = now;
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub async fn create(&self, draft: Draft) -> Job {
        let verdict = self.handle.create(TENANT, vec![Create { draft, keyed: None }]).await.pop().unwrap();
        job(verdict.unwrap())
    }

    pub async fn replace(&self, id: JobId, draft: Draft) -> Job {
        job(self.handle.replace(TENANT, &JobKey::Id(id), draft, Conditions::default()).await.unwrap())
    }

    /// Claims up to `capacity` for a worker, without waiting.
    pub async fn pull(&self, worker: &str, capacity: usize) -> Vec<PulledAttempt> {
        let intro = Introduction { worker: worker.into(), capacity, ..Introduction::default() };
        self.handle.pull(&intro, 0).await.unwrap().pulled
    }

    /// Claims one for a worker as soon as there is one.
    pub async fn pull_one(&self, worker: &str) -> PulledAttempt {
        for _ in 0..2_000 {
            if let Some(pulled) = self.pull(worker, 1).await.pop() {
                return pulled;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("nothing to pull in 4 s");
    }

    /// Ends an attempt of a worker.
    pub async fn finish(&self, pulled: &PulledAttempt, outcome: Outcome) -> Finishing {
        let fence = pulled.granted.fence;
        let finish = Finish {
            execution: fence.execution,
            fence: Some(fence.fence),
            worker: None,
            outcome,
            duration_ms: None,
            logs: Vec::new(),
        };
        self.handle.finish(TENANT, vec![finish]).await.unwrap().pop().unwrap()
    }

    /// How many executions are running, of all jobs.
    pub async fn executions_running(&self) -> u64 {
        let counts = self.store.counts(Some(TENANT)).await.unwrap();
        counts.iter().filter(|count| count.state == State::Running).map(|count| count.executions).sum()
    }

    /// All executions of a job, earliest first.
    pub async fn executions(&self, job: JobId) -> Vec<Execution> {
        let query = ExecutionQuery {
            tenant: TENANT,
            job: Some(job),
            states: Vec::new(),
            from: None,
            to: None,
            filter: Filter::default(),
            before: None,
            limit: 10_000,
        };
        let mut items = self.store.list_executions(&query).await.unwrap().items;
        items.reverse();
        items
    }
}

/// Opens the store; after a restart the last task of the engine before may hold it for a moment.
async fn open(dir: &std::path::Path, clock: &ManualClock) -> SqliteStore {
    let options = sqlite::Options::new(dir.join("campanile.db"));
    for _ in 0..1_000 {
        match SqliteStore::open(&options) {
            Ok(store) => return store.with_clock(Arc::new(clock.clone())),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    SqliteStore::open(&options).unwrap().with_clock(Arc::new(clock.clone()))
}

fn job(accepted: Accepted) -> Job {
    match accepted {
        Accepted::Job(job) => *job,
        Accepted::Replayed(answer) => panic!("replayed {answer:?}"),
    }
}

/// A draft of a scripted webhook with a payload of `1` and three attempts, 100 ms apart.
pub fn draft(name: &str, schedule: Schedule) -> Draft {
    let definition = Definition {
        name: name.into(),
        schedule,
        action: ActionSpec { kind: ActionKind::Webhook, config: "{}".into() },
        payload: "1".into(),
        retry: RetryPolicy {
            max_attempts: 3,
            backoff: Backoff::Fixed,
            initial_delay_ms: 100,
            max_delay_ms: 100,
            total_timeout_ms: None,
        },
        timeout_ms: 5_000,
        ..Definition::default()
    };
    Draft { definition, allow_past: false, paused: false }
}

/// A draft with something else in its definition.
pub fn with(mut draft: Draft, define: impl FnOnce(&mut Definition)) -> Draft {
    define(&mut draft.definition);
    draft
}

/// A draft of a job for external workers with the handler `work`.
pub fn worker_draft(name: &str, schedule: Schedule) -> Draft {
    with(draft(name, schedule), |d| d.action = ActionSpec { kind: ActionKind::Worker, config: "\"work\"".into() })
}

/// The config of a webhook that never answers.
pub const HANG: &str = "\"hang\"";

pub fn every(ms: u64) -> Schedule {
    Schedule::Every { every_ms: ms, phase_ms: 0 }
}
