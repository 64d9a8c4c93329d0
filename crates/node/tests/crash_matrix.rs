//! The real binary, killed at every point of `campanile_model::fault::POINTS`, embedded and on PostgreSQL; started
//! again, it loses nothing and doubles nothing.
//!
//! Each case starts a server that ends itself at its point, under a load that passes through it; a case whose point is
//! not reached fails. `CAMPANILE_MATRIX=store.fire` runs only the points that start so, and `CAMPANILE_MATRIX_THREADS`
//! says how many at the same time.

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use campanile_model::fault::POINTS;
use common::cluster::Cluster;
use common::creator::Creator;
use common::judge::{Arrival, finish_by, number};
use common::script::{Done, Script};
use common::{Delivery, Server, Sink, eventually};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Cases at the same time, of each store: most of their time they wait.
const THREADS: u64 = 6;
/// How long a load may take to reach a point. The slowest comes after 20 s, when old history is looked for.
const REACH_MAX: Duration = Duration::from_secs(60);
/// Between two one-offs, at most.
const PAUSE_MS: u64 = 80;
/// The signal of an abort.
const SIGABRT: i32 = 6;

#[test]
fn killed_at_every_point_an_embedded_node_loses_nothing() {
    matrix(Backend::Embedded);
}

#[test]
fn killed_at_every_point_a_node_on_postgresql_loses_nothing() {
    matrix(Backend::Postgres);
}

/// The list has what the code has, and nothing else.
#[test]
fn every_point_of_the_list_is_in_the_code_and_the_other_way_round() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut in_code = BTreeSet::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut |text| {
            in_code.extend(quoted(text, "Point(\"").into_iter().map(str::to_owned));
            for step in quoted(text, "Step(\"") {
                in_code.extend(["before", "after"].map(|side| format!("store.{step}.{side}_commit")));
            }
        });
    }
    let listed: BTreeSet<String> = POINTS.iter().map(|point| (*point).to_owned()).collect();
    assert_eq!(listed.len(), POINTS.len(), "a point is listed twice");
    let (missing, unlisted): (Vec<_>, Vec<_>) =
        (listed.difference(&in_code).collect(), in_code.difference(&listed).collect());
    assert!(missing.is_empty(), "listed, and not in the code: {missing:?}");
    assert!(unlisted.is_empty(), "in the code, and not listed: {unlisted:?}");
}

fn sources(folder: &Path, each: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// What stands between this opening and the next quote; none of it empty.
fn quoted<'a>(text: &'a str, opening: &str) -> Vec<&'a str> {
    let found = text.split(opening).skip(1).filter_map(|rest| rest.split('"').next());
    found.filter(|name| !name.is_empty()).collect()
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Backend {
    Embedded,
    Postgres,
}

/// Whether this store's node comes by a point at all.
fn has(backend: Backend, point: &str) -> bool {
    backend == Backend::Postgres || !(point.starts_with("cluster.") || point.starts_with("queue.take."))
}

/// At which time the process ends there: a little later where the load comes by often.
fn time(point: &str) -> u32 {
    let frequent =
        ["store.put_jobs", "store.fire", "store.claim", "store.complete", "queue.", "action.", "cluster.beat"];
    if frequent.iter().any(|start| point.starts_with(start)) { 5 } else { 1 }
}

/// Runs all cases of a store, several at the same time, and tells which failed.
fn matrix(backend: Backend) {
    let only = std::env::var("CAMPANILE_MATRIX").unwrap_or_default();
    let mut points: Vec<&str> = POINTS.iter().copied().filter(|point| has(backend, point)).collect();
    points.retain(|point| point.starts_with(&only));
    // Taken from the end: the slowest first.
    points.sort_by_key(|point| point.starts_with("store.prune"));
    let count = points.len();
    let (queue, failed) = (Mutex::new(points), Mutex::new(Vec::new()));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..number("CAMPANILE_MATRIX_THREADS", THREADS) {
            scope.spawn(|| {
                loop {
                    let Some(point) = queue.lock().unwrap().pop() else { return };
                    let began = Instant::now();
                    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| Case { backend, point }.run()));
                    let verdict = if ended.is_ok() { "survived" } else { "FAILED" };
                    eprintln!("{backend:?} {point}: {verdict} in {:.1} s", began.elapsed().as_secs_f64());
                    if ended.is_err() {
                        failed.lock().unwrap().push(point);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    eprintln!("{backend:?}: {count} points in {:.1} s, failed: {failed:?}", started.elapsed().as_secs_f64());
    assert!(count > 0, "no point starts with {only:?}");
    assert!(failed.is_empty(), "{backend:?}: {failed:?}; what went wrong is told above");
}

struct Case {
    backend: Backend,
    point: &'static str,
}

impl Case {
    fn run(&self) {
        let (sink, slow) = (Sink::start(), Sink::start());
        let site = Site::new(self.backend);
        let armed = format!("{}=abort@{}", self.point, time(self.point));
        let mut helper = None;
        let load = match site.start(&[("CAMPANILE_FAILPOINT", &armed)]) {
            Err(said) => {
                self.assert_reached(&said);
                None
            }
            Ok(mut server) => {
                let script = Script::start(server.url(), &sink, &slow);
                let creator = Creator::start_slow(vec![server.url().to_owned()], sink.clone(), 1, PAUSE_MS);
                if self.needs_another() {
                    helper = Some(site.start(&[]).expect("a second node starts"));
                }
                if self.point.starts_with("cluster.evict") {
                    helper.take().expect("it is there").kill_9();
                }
                let ended = server.wait_end(REACH_MAX);
                let said = format!("{ended:?} {}", server.log());
                assert_eq!(
                    ended.and_then(|status| status.signal()),
                    Some(SIGABRT),
                    "not reached: {}: {said}",
                    self.point
                );
                self.assert_reached(&said);
                Some((script, creator))
            }
        };
        let server =
            site.start(&[]).unwrap_or_else(|said| panic!("it does not start again after {}: {said}", self.point));
        let (script, creator) = load.unwrap_or_else(|| {
            let creator = Creator::start_slow(vec![server.url().to_owned()], sink.clone(), 1, PAUSE_MS);
            (Script::start(server.url(), &sink, &slow), creator)
        });
        script.set_url(server.url());
        creator.set_urls(vec![server.url().to_owned()]);
        let (done, _worker) = script.finish();
        let created = creator.stop();
        assert_eq!(created.unexpected(&[0, 503, 504]), [], "{}", self.point);
        let known = [&done.known[..], &created.known[..]].concat();
        let witnesses = || [sink.deliveries(), slow.deliveries()].concat().into_iter().filter(is_of_a_run).collect();
        let verdict = finish_by(&server, witnesses, &known, Arrival::InOrder);
        assert!(verdict.fires > 5 && created.known.len() > 2, "{}: nothing happened: {verdict:?}", self.point);
        self.judge(&server, &sink, &done);
        drop(helper);
    }

    /// Whether a node comes by this point only when it is not alone. One that is keeps what waits to itself.
    fn needs_another(&self) -> bool {
        let with_others = ["cluster.release", "cluster.evict"].iter().any(|start| self.point.starts_with(start));
        with_others || (self.backend == Backend::Postgres && self.point.starts_with("queue."))
    }

    /// The process ended by this point, and by nothing else.
    fn assert_reached(&self, said: &str) {
        assert!(said.contains(&format!("fault: abort at {}, time", self.point)), "not reached: {}: {said}", self.point);
    }

    /// Dead letters, cancels, notifications and counters are as they should be.
    fn judge(&self, server: &Server, sink: &Sink, done: &Done) {
        let point = self.point;
        let execution = |id: &str| server.get(&format!("/v1/executions/{id}"));
        for id in &done.cancelled {
            let cancelled = execution(id);
            assert_eq!(
                (&cancelled["state"], &cancelled["attempt"]),
                (&"CANCELLED".into(), &0.into()),
                "{point}: {cancelled}"
            );
        }
        for id in &done.replayed {
            assert_eq!(execution(id)["state"], "SUCCEEDED", "{point}: {id}");
        }
        for id in &done.discarded {
            let state = &execution(id)["state"];
            assert!(state != "DEAD" && state != "SUCCEEDED", "{point}: {id} was given up, and is {state}");
        }
        for id in &done.dead {
            eventually(Duration::from_secs(30), &format!("{point}: the death of {id} is told"), || {
                let told = sink.on("/events");
                told.iter().any(|event| {
                    let event: Value = serde_json::from_slice(&event.body).unwrap();
                    event["subject"] == **id && event["type"] == "dev.campanile.execution.dead.v1"
                })
            });
        }
        let counted = server.get("/v1/counts");
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for count in counted["data"].as_array().unwrap() {
            *counts.entry(count["state"].as_str().unwrap().to_owned()).or_default() +=
                count["executions"].as_u64().unwrap();
        }
        assert_eq!(counts, listed(server), "{point}: the counters are not what is there");
    }
}

fn is_of_a_run(delivery: &Delivery) -> bool {
    !delivery.execution.is_empty()
}

/// All executions by state, as they are listed.
fn listed(server: &Server) -> BTreeMap<String, u64> {
    let (mut counts, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/executions?limit=500{cursor}"));
        for execution in page["data"].as_array().unwrap() {
            *counts.entry(execution["state"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        match page["next_cursor"].as_str() {
            Some(next) if page["has_more"] == true => cursor = format!("&cursor={next}"),
            _ => return counts,
        }
    }
}

/// Where a case happens: a store of its own.
enum Site {
    Embedded(tempfile::TempDir),
    Postgres(Cluster),
}

impl Site {
    fn new(backend: Backend) -> Self {
        match backend {
            Backend::Embedded => Self::Embedded(tempfile::tempdir().expect("a directory")),
            Backend::Postgres => Self::Postgres(Cluster::new()),
        }
    }

    /// Starts a node; what it said if it ended before it was ready.
    fn start(&self, more: &[(&str, &str)]) -> Result<Server, String> {
        let mut environment = vec![
            // Whoever is lost is soon known to be.
            ("CAMPANILE_ENGINE_LEASE", "2s"),
            ("CAMPANILE_ACTIONS_ALLOW_PRIVATE_TARGETS", "true"),
            ("CAMPANILE_ACTIONS_ALLOW_PLAIN_HTTP", "true"),
        ];
        environment.extend_from_slice(more);
        match self {
            Self::Embedded(dir) => Server::try_start_in("server", &data(dir), &[], &environment),
            Self::Postgres(cluster) => cluster.try_node_in(&[], &environment),
        }
    }
}

fn data(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("data")
}
