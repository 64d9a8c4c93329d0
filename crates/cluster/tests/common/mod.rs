//! What the tests on a real PostgreSQL share: a schema with the coordinator's table, clocks, and nodes with a small
//! engine.

#![allow(dead_code, reason = "not every test needs all of it")]

use campanile_cluster::PgCoordinator;
use campanile_cluster::postgres::{Mode, PgOptions};
use campanile_model::coordinator::{Coordinator, Introduction, Member, Roles};
use campanile_model::settings::SharedSettings;
use campanile_model::shard::ShardId;
use campanile_model::time::Offset;
use campanile_model::{Clock, Timestamp};
use campanile_pg::tokio_postgres::Client;
use campanile_pg::{Options, Target};
use campanile_testkit::postgres;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// All migrations of the store; the coordinator's table is cut out of them, so that this crate need not know the store.
const MIGRATION: &str = include_str!("../../../store/src/postgres/migrations/0001_start.sql");

/// A schema of its own with the table `members`.
pub struct Database {
    pub schema: String,
    /// A connection that belongs to no node.
    pub client: Client,
}

impl Database {
    pub async fn new() -> Self {
        let schema = postgres::schema();
        // It may hold a lock for as long as a test needs.
        let client = connect(&Options { idle_in_transaction_ms: 0, ..options(&schema, "test") }).await;
        let from = MIGRATION.find("CREATE TABLE members").unwrap();
        let table = &MIGRATION[from..from + MIGRATION[from..].find(';').unwrap()];
        client.batch_execute(&format!("CREATE SCHEMA {schema}; {table}")).await.unwrap();
        Self { schema, client }
    }

    pub fn coordinator(&self, node: &str, mode: Mode) -> PgCoordinator {
        let pg = options(&self.schema, &self.name(node));
        PgCoordinator::new(PgOptions { pg, mode, clock: TestClock::new(), offset: Offset::default() }).unwrap()
    }

    /// A name that no node of another test has: sessions are ended by name.
    pub fn name(&self, node: &str) -> String {
        format!("node:{node}-{}", &self.schema[self.schema.len() - 12..])
    }

    /// The sessions of a node.
    pub async fn sessions(&self, node: &str) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        let name = campanile_pg::target::application_name(&self.name(node));
        self.client.query_one(sql, &[&name]).await.unwrap().get(0)
    }

    /// How many locks the sessions of a node hold.
    pub async fn locks(&self, node: &str) -> i64 {
        let sql = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE locktype = 'advisory' AND granted AND application_name = $1";
        let name = campanile_pg::target::application_name(&self.name(node));
        self.client.query_one(sql, &[&name]).await.unwrap().get(0)
    }

    /// Ends the sessions of a node, as a broken network would.
    pub async fn cut(&self, node: &str) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        let name = campanile_pg::target::application_name(&self.name(node));
        assert!(!self.client.query(sql, &[&name]).await.unwrap().is_empty(), "nothing to cut");
    }
}

pub fn options(schema: &str, node: &str) -> Options {
    Options { schema: schema.into(), ..Options::new(postgres::url(), node) }
}

/// A connection that lives as long as its client.
pub async fn connect(options: &Options) -> Client {
    let (client, driver) = Target::new(options).unwrap().connect().await.unwrap();
    tokio::spawn(async move { drop(driver.await) });
    client
}

/// The machine's clock, or one that is set wrongly.
pub struct TestClock {
    started: Instant,
    pub ahead_ms: AtomicI64,
}

impl TestClock {
    #[allow(clippy::disallowed_methods, reason = "a real server has a real clock")]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), ahead_ms: AtomicI64::new(0) })
    }
}

#[async_trait::async_trait]
impl Clock for TestClock {
    #[allow(clippy::disallowed_methods, reason = "a real server has a real clock")]
    fn now(&self) -> Timestamp {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        Timestamp::from_millis(i64::try_from(millis).unwrap() + self.ahead_ms.load(Ordering::Relaxed))
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap()
    }

    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Who owns which shard, as the engines believe.
#[derive(Clone, Default)]
pub struct Owners {
    pub of: Arc<Mutex<BTreeMap<ShardId, String>>>,
    /// Shards that somebody was told while another had not given them up.
    pub doubled: Arc<Mutex<Vec<(ShardId, String, String)>>>,
}

impl Owners {
    pub fn count(&self, node: &str) -> usize {
        self.of.lock().values().filter(|owner| *owner == node).count()
    }

    pub fn total(&self) -> usize {
        self.of.lock().len()
    }

    fn give_up(&self, node: &str, keep: &[ShardId]) {
        self.of.lock().retain(|shard, owner| owner != node || keep.contains(shard));
    }

    fn own(&self, node: &str, shards: &[ShardId]) {
        let mut of = self.of.lock();
        for &shard in shards {
            match of.insert(shard, node.to_owned()) {
                Some(other) if other != node => self.doubled.lock().push((shard, other, node.to_owned())),
                _ => {}
            }
        }
    }

    pub fn assert_never_doubled(&self) {
        assert_eq!(*self.doubled.lock(), []);
    }
}

/// A node: its coordinator, and an engine that owns what it is told and takes a moment to give up.
pub struct Node {
    pub name: String,
    pub coordinator: Arc<PgCoordinator>,
    pub clock: Arc<TestClock>,
    pub offset: Offset,
    pub live: Arc<Mutex<Vec<String>>>,
    owners: Owners,
    engine: JoinHandle<()>,
}

impl Node {
    pub async fn start(database: &Database, node: &str, owners: &Owners) -> Self {
        Self::start_as(database, node, owners, Mode::Shards, Roles::ALL).await
    }

    pub async fn start_as(database: &Database, node: &str, owners: &Owners, mode: Mode, roles: Roles) -> Self {
        let pg = options(&database.schema, &database.name(node));
        Self::start_on(pg, owners, mode, roles).await
    }

    pub async fn start_on(pg: Options, owners: &Owners, mode: Mode, roles: Roles) -> Self {
        let (clock, offset, name) = (TestClock::new(), Offset::default(), pg.node.clone());
        let options = PgOptions { pg, mode, clock: clock.clone(), offset: offset.clone() };
        let coordinator = Arc::new(PgCoordinator::new(options).unwrap());
        let (version, address) = ("0.0.0".into(), "127.0.0.1:1".into());
        coordinator
            .join(Introduction { node: name.clone(), roles, version, address, settings: SharedSettings::default() })
            .await
            .unwrap();
        let live = Arc::new(Mutex::new(Vec::new()));
        let engine = tokio::spawn(engine(name.clone(), coordinator.clone(), owners.clone(), live.clone()));
        Self { name, coordinator, clock, offset, live, owners: owners.clone(), engine }
    }

    /// Stops firing, as an engine does before it resigns or leaves.
    pub fn stop_firing(&self) {
        self.engine.abort();
        self.owners.give_up(&self.name, &[]);
    }

    /// Ends without a word.
    pub fn kill(self) {
        self.stop_firing();
        let Self { coordinator, engine, .. } = self;
        drop(engine);
        // The engine's task holds the other reference until it has noticed that it was aborted.
        tokio::spawn(async move {
            while Arc::strong_count(&coordinator) > 1 {
                tokio::task::yield_now().await;
            }
        });
    }

    pub async fn leave(self) {
        self.stop_firing();
        self.coordinator.leave().await.unwrap();
    }

    pub fn count(&self) -> usize {
        self.owners.count(&self.name)
    }

    /// What the members' list says about it.
    pub async fn member(&self, asked: &Node) -> Option<Member> {
        asked.coordinator.members().await.unwrap().into_iter().find(|member| member.node == self.name)
    }
}

async fn engine(name: String, coordinator: Arc<PgCoordinator>, owners: Owners, live: Arc<Mutex<Vec<String>>>) {
    while let Some(assignment) = coordinator.assignment().await.unwrap() {
        *live.lock() = assignment.live_nodes;
        // Writes that are on their way are waited for.
        tokio::time::sleep(Duration::from_millis(10)).await;
        owners.give_up(&name, &assignment.shards);
        owners.own(&name, &assignment.shards);
    }
    owners.give_up(&name, &[]);
}

/// Waits until something is so, and says how long that took.
#[allow(clippy::disallowed_methods, reason = "a test that measures")]
pub async fn until(what: &str, within_ms: u64, is_so: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_millis(within_ms), "not within {within_ms} ms: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    println!("{what}: {} ms", started.elapsed().as_millis());
    started.elapsed()
}
