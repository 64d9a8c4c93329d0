//! Several real nodes on one PostgreSQL, what they say about each other, and load for them.

use super::judge::{Due, Known, catch_up, ms, retry, webhook};
use super::{Delivery, Server, Sink, block_on, eventually, http_within, runtime};
use campanile_client::wire::Cluster as View;
use campanile_model::JobId;
use campanile_model::shard::shard_of;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// How many shards there are.
pub const SHARDS: usize = campanile_model::limits::SHARDS as usize;
/// A fire is durable so much ahead of its instant, at least.
pub const LEAD_MS: i64 = campanile_model::limits::LEAD_MS_MIN as i64;
/// How long nodes may take to agree.
const AGREE_MAX: Duration = Duration::from_secs(20);
/// How long a node that may stand still is waited for.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// An installation: a schema on a server, and the data directories of its nodes. Dropped after its nodes.
pub struct Cluster {
    url: String,
    schema: String,
    dir: Option<tempfile::TempDir>,
    started: AtomicU32,
}

impl Cluster {
    /// A new one on the server that tests share.
    pub fn new() -> Self {
        Self::on(campanile_testkit::postgres::url())
    }

    /// A new one on this server.
    pub fn on(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: campanile_testkit::postgres::schema(),
            dir: Some(tempfile::tempdir().expect("a directory")),
            started: AtomicU32::new(0),
        }
    }

    /// Starts a node, and waits until it fires.
    pub fn node(&self) -> Server {
        self.node_with(&[])
    }

    /// The same with further arguments.
    pub fn node_with(&self, args: &[&str]) -> Server {
        self.try_node(args).unwrap_or_else(|message| panic!("a node starts: {message}"))
    }

    /// The same; what it said instead of a panic.
    pub fn try_node(&self, args: &[&str]) -> Result<Server, String> {
        self.try_node_in(args, &[])
    }

    /// The same with variables of its environment.
    pub fn try_node_in(&self, args: &[&str], more: &[(&str, &str)]) -> Result<Server, String> {
        // Each start in a folder of its own: a node keeps nothing there that it would need again.
        let data_dir = self.dir().join(format!("node-{}", self.started.fetch_add(1, Ordering::Relaxed)));
        let args: Vec<&str> = ["--store", &self.url].into_iter().chain(args.iter().copied()).collect();
        let environment = [
            ("CAMPANILE_STORE_SCHEMA", self.schema.as_str()),
            ("CAMPANILE_ACTIONS_ALLOW_PRIVATE_TARGETS", "true"),
            ("CAMPANILE_ACTIONS_ALLOW_PLAIN_HTTP", "true"),
        ];
        let environment: Vec<(&str, &str)> = environment.into_iter().chain(more.iter().copied()).collect();
        Server::try_start_in("server", &data_dir, &args, &environment)
    }

    /// Starts so many nodes at the same time.
    pub fn nodes(&self, count: usize) -> Vec<Server> {
        std::thread::scope(|scope| {
            let starting: Vec<_> = (0..count).map(|_| scope.spawn(|| self.node())).collect();
            starting.into_iter().map(|node| node.join().expect("a node starts")).collect()
        })
    }

    /// A connection of our own, with the schema in its path.
    pub fn sql(&self) -> Sql {
        let sql = Sql::connect(&self.url);
        sql.run(&format!("SET search_path = {}", self.schema));
        sql
    }

    fn dir(&self) -> PathBuf {
        self.dir.as_ref().expect("taken by drop only").path().to_owned()
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("CAMPANILE_TEST_KEEP_LOGS").is_some() {
            // What the nodes said is worth more than a clean disk.
            let kept = self.dir.take().map(tempfile::TempDir::keep);
            eprintln!("logs of the nodes: {}/node-*/log", kept.unwrap_or_default().display());
        }
        let url = self.url.clone();
        let drop_schema = format!("SET lock_timeout = 5000; DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        // A private server may be gone already, and `cargo xtask test` drops what is left on another.
        runtime().block_on(async move {
            let Ok((client, driver)) = tokio_postgres::connect(&url, NoTls).await else { return };
            tokio::spawn(driver);
            let _ = client.batch_execute(&drop_schema).await;
        });
    }
}

/// A connection to PostgreSQL.
pub struct Sql(tokio_postgres::Client);

impl Sql {
    pub fn connect(url: &str) -> Self {
        let url = url.to_owned();
        let client = block_on(async move {
            let (client, driver) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
            tokio::spawn(driver);
            client
        });
        Self(client)
    }

    /// Runs statements without parameters, and answers the rows of all.
    pub fn run(&self, statements: &str) -> Vec<Vec<String>> {
        let answers = block_on(self.0.simple_query(statements));
        let answers = answers.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
        let cells = |row: &tokio_postgres::SimpleQueryRow| {
            (0..row.len()).map(|i| row.get(i).unwrap_or_default().to_owned()).collect()
        };
        let rows = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(cells(row)),
            _ => None,
        });
        rows.collect()
    }
}

/// The nodes as one of them sees them.
pub fn view(server: &Server) -> View {
    serde_json::from_value(server.get("/v1/cluster")).expect("a cluster")
}

/// The same by its address; `None` where it does not answer soon.
pub fn view_at(url: &str) -> Option<View> {
    let answer = http_within(ANSWER_MAX, "GET", &format!("{url}/v1/cluster"), &[], None);
    if answer.status == 200 { serde_json::from_value(answer.body).ok() } else { None }
}

/// The name of a node.
pub fn name(server: &Server) -> String {
    server.get("/v1/status")["node"].as_str().expect("a name").to_owned()
}

pub fn names(servers: &[Server]) -> Vec<String> {
    servers.iter().map(name).collect()
}

pub fn urls<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<String> {
    servers.into_iter().map(|server| server.url().to_owned()).collect()
}

/// A counter of a node; zero where it does not answer.
pub fn counter(server: &Server, counter: &str) -> u64 {
    counters(server.url()).get(counter).copied().unwrap_or(0)
}

/// All counters of a node; none where it does not answer soon.
pub fn counters(url: &str) -> BTreeMap<String, u64> {
    let answer = http_within(ANSWER_MAX, "GET", &format!("{url}/v1/status"), &[], None);
    let counters = answer.body["counters"].as_object().cloned().unwrap_or_default();
    counters.into_iter().map(|(name, count)| (name, count.as_u64().unwrap_or(0))).collect()
}

/// The shards that a node has opened last.
pub fn shards_of(view: &View, node: &str) -> HashSet<u16> {
    view.shards.iter().filter(|shard| shard.owner == node).map(|shard| shard.shard).collect()
}

/// Whether exactly these own all shards, each as many as any other or one more.
pub fn is_even(view: &View, owners: &[String]) -> bool {
    let (least, most) = (SHARDS / owners.len(), SHARDS.div_ceil(owners.len()));
    let counts: Vec<usize> = owners.iter().map(|owner| shards_of(view, owner).len()).collect();
    view.shards.len() == SHARDS
        && counts.iter().sum::<usize>() == SHARDS
        && counts.iter().all(|count| (least..=most).contains(count))
}

/// Waits until exactly these share the shards evenly. How long that took.
#[track_caller]
pub fn wait_even(server: &Server, owners: &[String]) -> Duration {
    let started = Instant::now();
    while !is_even(&view(server), owners) {
        let seen = || view(server).nodes;
        assert!(started.elapsed() < AGREE_MAX, "the shards are not shared by {owners:?}: {:?}", seen());
        std::thread::sleep(Duration::from_millis(5));
    }
    started.elapsed()
}

/// Waits until none of the shards is owned by this node any more. How long that took.
#[track_caller]
pub fn wait_taken_over(server: &Server, from: &str) -> Duration {
    let started = Instant::now();
    let is_over = |view: &View| view.shards.len() == SHARDS && view.shards.iter().all(|shard| shard.owner != from);
    while !is_over(&view(server)) {
        assert!(started.elapsed() < AGREE_MAX, "the shards of {from} are not taken over: {:?}", view(server).nodes);
        std::thread::sleep(Duration::from_millis(5));
    }
    started.elapsed()
}

/// Epochs never go back, and whatever has another owner has a newer one.
#[track_caller]
pub fn assert_epochs_grow(before: &View, after: &View) {
    let before: HashMap<u16, _> = before.shards.iter().map(|shard| (shard.shard, shard)).collect();
    for shard in &after.shards {
        let Some(older) = before.get(&shard.shard) else { continue };
        let grew = if shard.owner == older.owner { shard.epoch >= older.epoch } else { shard.epoch > older.epoch };
        assert!(grew, "{older:?} then {shard:?}");
    }
}

/// Creates recurring jobs with a webhook each, every 250, 500, 1000 and 1000 ms in turn: twice as many fires per second as jobs.
/// Every fifth has a slow target, so that faults find requests under way.
pub fn load(server: &Server, sink: &Sink, count: usize) -> Vec<Known> {
    let every_ms = |n: usize| [250, 500, 1_000, 1_000][n % 4];
    let job = |n: usize| {
        let path = if n.is_multiple_of(5) { "/slow" } else { "/fast" };
        json!({
            "name": format!("recurring-{n}"), "schedule": { "every": format!("{}ms", every_ms(n)) },
            "action": webhook(sink, path), "retry_policy": retry(), "catch_up": catch_up(),
        })
    };
    let jobs: Vec<Value> = (0..count).map(job).collect();
    let answer = server.post("/v1/jobs:batch", &json!({ "jobs": jobs }));
    let results = answer["results"].as_array().expect("results");
    let known = results.iter().enumerate().map(|(n, item)| {
        assert_eq!(item["status"], 201, "{item}");
        let text = |field: &str| item["job"][field].as_str().unwrap().to_owned();
        let created_at_ms = ms(&item["job"]["created_at"]);
        Known { id: text("id"), name: text("name"), due: Due::Every(every_ms(n)), created_at_ms }
    });
    known.collect()
}

/// The names of those jobs that are in these shards.
pub fn jobs_in(known: &[Known], shards: &HashSet<u16>) -> HashSet<String> {
    let shard = |job: &Known| shard_of(job.id.parse::<JobId>().expect("an id")).0;
    known.iter().filter(|job| shards.contains(&shard(job))).map(|job| job.name.clone()).collect()
}

/// When each fire of these jobs that was due within a span of time first arrived: how late, in milliseconds.
pub fn lateness_ms(deliveries: &[Delivery], jobs: &HashSet<String>, due_ms: std::ops::Range<i64>) -> Vec<i64> {
    let mut first: HashMap<&str, i64> = HashMap::new();
    for delivery in deliveries {
        if jobs.contains(&delivery.job_name) && due_ms.contains(&delivery.scheduled_at_ms) {
            first.entry(&delivery.execution).or_insert(delivery.arrived_at_ms - delivery.scheduled_at_ms);
        }
    }
    let mut late: Vec<i64> = first.into_values().collect();
    late.sort_unstable();
    late
}

/// Waits until a fire of these jobs arrives that was due after `after_ms`. How long after that, in milliseconds.
#[track_caller]
pub fn wait_fire(sink: &Sink, jobs: &HashSet<String>, after_ms: i64, due_ms: i64) -> i64 {
    let mut arrived_at_ms = None;
    eventually(AGREE_MAX, "a fire arrives", || {
        let deliveries = sink.deliveries();
        let found = deliveries.iter().find(|d| d.scheduled_at_ms >= due_ms && jobs.contains(&d.job_name));
        arrived_at_ms = found.map(|delivery| delivery.arrived_at_ms);
        arrived_at_ms.is_some()
    });
    arrived_at_ms.expect("found") - after_ms
}
