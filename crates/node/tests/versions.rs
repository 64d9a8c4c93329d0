//! Changes of jobs meet their instants, in the real binary: one node with its own store, and three nodes on PostgreSQL.
//!
//! The rules are in docs/concepts/jobs.md. Everything here is judged by what the API says of versions (since when each counts) and of
//! executions, to the millisecond; nothing by how long something took. Bugs that are planted in the binary show that each of these
//! can fail (`cargo xtask zoo attempt-takes-the-newest`, `counts-from-the-caller`; by hand `newest-governs`, `change-takes-away`).

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use common::cluster::Cluster;
use common::judge::{catch_up, ms, webhook};
use common::{Reply, Server, Signal, Sink, eventually, now_ms};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long everything may take to end.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// One test at a time: they change jobs at certain moments.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An installation: its nodes, and where they keep what they know.
struct Site {
    nodes: Vec<Server>,
    home: Home,
}

enum Home {
    Embedded(tempfile::TempDir),
    Postgres(Cluster),
}

impl Site {
    fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { nodes: vec![Server::start(dir.path(), &[])], home: Home::Embedded(dir) }
    }

    fn postgres() -> Self {
        let cluster = Cluster::new();
        Self { nodes: cluster.nodes(3), home: Home::Postgres(cluster) }
    }

    /// One of its nodes.
    fn node(&self, n: usize) -> &Server {
        &self.nodes[n % self.nodes.len()]
    }

    fn signal(&self, signal: Signal) {
        self.nodes.iter().for_each(|node| node.signal(signal));
    }

    /// All nodes die at once.
    fn kill_9(&mut self) {
        self.nodes.drain(..).for_each(Server::kill_9);
    }

    fn start_again(&mut self) {
        self.nodes = match &self.home {
            Home::Embedded(dir) => vec![Server::start(dir.path(), &[])],
            Home::Postgres(cluster) => cluster.nodes(3),
        };
    }

    fn create(&self, n: usize, job: Value) -> i64 {
        ms(&self.node(n).post("/v1/jobs", &job)["effective_at"])
    }

    /// Changes a job by way of any node; says since when that counts.
    fn change(&self, n: usize, name: &str, change: &Change) -> i64 {
        let node = self.node(n);
        let path = format!("/v1/jobs/name:{name}");
        let send = || match change {
            Change::Patch(patch) => node.http("PATCH", &path, Some(patch)),
            Change::Pause => node.http("POST", &format!("{path}/pause"), Some(&json!({}))),
            Change::Resume => node.http("POST", &format!("{path}/resume"), Some(&json!({}))),
        };
        let mut answer = send();
        // A node that stood still has closed the connections that were idle meanwhile. Twice is two versions, which is fine.
        for _ in 0..10 {
            if answer.status == 0 {
                answer = send();
            }
        }
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        ms(&answer.body["effective_at"])
    }

    /// Waits until nothing is under way.
    fn settle(&self) {
        eventually(SETTLE_MAX, "everything ends", || {
            let open = ["PENDING", "RUNNING", "RETRYING", "HELD"];
            let count = |state: &str| self.node(0).get(&format!("/v1/executions?limit=1&state={state}"));
            open.iter().all(|state| count(state)["data"].as_array().unwrap().is_empty())
        });
    }
}

enum Change {
    Patch(Value),
    Pause,
    Resume,
}

/// A version of a job with a period.
#[derive(Debug)]
struct Version {
    number: u64,
    since_ms: i64,
    until_ms: i64,
    fires: bool,
    every_ms: i64,
    phase_ms: i64,
}

/// The versions of a job; the newest one governs up to `now_ms`.
fn versions(server: &Server, name: &str, now_ms: i64) -> Vec<Version> {
    let page = server.get(&format!("/v1/jobs/name:{name}/versions?limit=500"));
    assert_eq!(page["has_more"], false, "all of them are listed");
    let read = |version: &Value| Version {
        number: version["version"].as_u64().unwrap(),
        since_ms: ms(&version["effective_at"]),
        until_ms: version.get("ended_at").map_or(now_ms, ms),
        fires: version["state"] == "ACTIVE",
        every_ms: version["schedule"]["every_ms"].as_i64().unwrap(),
        phase_ms: version["schedule"]["phase_ms"].as_i64().unwrap(),
    };
    page["data"].as_array().unwrap().iter().map(read).collect()
}

/// What must have run: each instant with the version that governs it.
fn expected(versions: &[Version]) -> BTreeMap<i64, u64> {
    let mut expected = BTreeMap::new();
    for version in versions.iter().filter(|version| version.fires) {
        let first = (version.since_ms - version.phase_ms).div_euclid(version.every_ms) + 1;
        let mut at = first * version.every_ms + version.phase_ms;
        while at <= version.until_ms {
            expected.insert(at, version.number);
            at += version.every_ms;
        }
    }
    expected
}

/// What ran: each instant with the version that it ran under.
fn ran(executions: &[Value]) -> BTreeMap<i64, u64> {
    let began = executions.iter().filter(|execution| execution["attempt"].as_u64().unwrap() > 0);
    began.map(|execution| (ms(&execution["fire_at"]), execution["job_version"].as_u64().unwrap())).collect()
}

/// Every instant ran under the version that governs it, and nothing else ran.
fn judge(site: &Site, name: &str) {
    let (node, now_ms) = (site.node(0), now_ms());
    let versions = versions(node, name, now_ms);
    let (expected, ran) = (expected(&versions), ran(&node.executions(name)));
    let lost: Vec<_> = expected.iter().filter(|(at, number)| ran.get(at) != Some(number)).collect();
    let wrong: Vec<_> = ran.iter().filter(|(at, number)| expected.get(at) != Some(number)).collect();
    assert!(lost.is_empty() && wrong.is_empty(), "{name}: lost {lost:?}, wrong {wrong:?} under {versions:#?}");
    let skips = node.get(&format!("/v1/jobs/name:{name}/skips?limit=500"));
    for skip in skips["data"].as_array().unwrap() {
        let (from, to) = (ms(&skip["from"]), ms(&skip["to"]));
        assert!(ran.range(from..=to).next().is_none(), "{name}: a skip covers what ran: {skip}");
    }
}

/// Waits until this instant has come.
fn sleep_until(at_ms: i64) {
    std::thread::sleep(Duration::from_millis(u64::try_from(at_ms - now_ms()).unwrap_or(0)));
}

/// The next multiple of `every_ms` that is at least `away_ms` away.
fn next(every_ms: i64, away_ms: i64) -> i64 {
    ((now_ms() + away_ms) / every_ms + 1) * every_ms
}

/// Takes everything that waits in a pool, as a worker with all handlers.
fn pull(site: &Site, pool: &str) -> Vec<Value> {
    let ask = json!({ "worker_id": "tester", "capacity": 100, "pools": [pool], "wait_ms": 500 });
    let mut pulled = Vec::new();
    loop {
        let mut more = 0;
        for node in &site.nodes {
            let answer = node.post("/internal/v1/executions/claim", &ask);
            let works = answer["executions"].as_array().unwrap();
            more += works.len();
            pulled.extend(works.iter().cloned());
        }
        if more == 0 {
            return pulled;
        }
    }
}

/// Seen: a pause (or another schedule) answered 116 ms before a fire, and a resume (or another payload) 1.5 s after it; the fire was
/// handed out.
fn a_change_before_an_instant_governs_it_whatever_follows(site: &Site) {
    const JOBS: usize = 40;
    let name = |n: usize| format!("governed-{n}");
    for n in 0..JOBS {
        let schedule = json!({ "every_ms": 5_000 });
        let action = json!({ "type": "WORKER", "handler": "h" });
        site.create(n, json!({ "name": name(n), "schedule": schedule, "action": action, "pool": "slow" }));
    }
    let at_ms = next(5_000, 500);
    sleep_until(at_ms - 500);
    // It is durable by now, and nobody has taken it.
    let before = |n: usize| {
        sleep_until(at_ms - 240 + 4 * n as i64);
        let hourly = json!({ "schedule": { "every_ms": 3_600_000 } });
        let change = if n.is_multiple_of(2) { Change::Pause } else { Change::Patch(hourly) };
        site.change(n, &name(n), &change)
    };
    let since: Vec<i64> = std::thread::scope(|scope| {
        let sending: Vec<_> = (0..JOBS).map(|n| scope.spawn(move || before(n))).collect();
        sending.into_iter().map(|sent| sent.join().expect("it is changed")).collect()
    });
    let in_time = since.iter().filter(|since| **since < at_ms).count();
    assert!(in_time >= JOBS / 4, "only {in_time} of {JOBS} changes were made in time");
    sleep_until(at_ms + 1_500);
    for n in 0..JOBS {
        let payload = json!({ "payload": { "later": true } });
        let change = if n.is_multiple_of(2) { Change::Resume } else { Change::Patch(payload) };
        site.change(n + 1, &name(n), &change);
    }
    for work in pull(site, "slow") {
        let n: usize = work["job_name"].as_str().unwrap().trim_start_matches("governed-").parse().unwrap();
        let fire_at = ms(&work["scheduled_at"]);
        assert!(fire_at != at_ms || since[n] >= at_ms, "changed at {} and handed out: {work}", since[n]);
    }
    for n in (0..JOBS).filter(|n| since[*n] < at_ms) {
        let executions = site.node(n).executions(&name(n));
        let it = executions.iter().find(|execution| ms(&execution["fire_at"]) == at_ms);
        assert!(it.is_none_or(|it| it["state"] == "SKIPPED"), "{it:?}");
    }
}

#[test]
fn a_change_before_an_instant_governs_it_in_the_embedded_store() {
    let _turn = turn();
    a_change_before_an_instant_governs_it_whatever_follows(&Site::embedded());
}

#[test]
fn a_change_before_an_instant_governs_it_on_postgresql() {
    let _turn = turn();
    a_change_before_an_instant_governs_it_whatever_follows(&Site::postgres());
}

/// How nobody is there for a while.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Away {
    Killed,
    Stopped,
}

/// Seen: 200 jobs every 100 ms, and nobody there for a while; a change sent the moment the server answers again took away what was
/// due before it.
fn a_change_takes_nothing_away_that_was_due(site: &mut Site, away: Away) {
    const JOBS: usize = 700;
    let name = |n: usize| format!("owed-{n}");
    let job = |n: usize| {
        let (name, schedule, action) = (name(n), json!({ "every_ms": 100 }), json!({ "type": "NOOP" }));
        json!({ "name": name, "schedule": schedule, "action": action, "catch_up": catch_up() })
    };
    let jobs: Vec<Value> = (0..JOBS).map(job).collect();
    let made = site.node(0).post("/v1/jobs:batch", &json!({ "jobs": jobs }));
    assert!(made["results"].as_array().unwrap().iter().all(|made| made["status"] == 201), "{made}");
    std::thread::sleep(Duration::from_millis(1_500));
    match away {
        Away::Killed => {
            site.kill_9();
            std::thread::sleep(AWAY);
            site.start_again();
        }
        Away::Stopped => {
            site.signal(Signal::STOP);
            std::thread::sleep(AWAY);
        }
    }
    let site = &*site;
    std::thread::scope(|scope| {
        for n in 0..JOBS {
            scope.spawn(move || {
                let hourly = json!({ "schedule": { "every_ms": 3_600_000 } });
                let change = if n.is_multiple_of(2) { Change::Pause } else { Change::Patch(hourly) };
                site.change(n, &name(n), &change);
            });
        }
        if away == Away::Stopped {
            // They have arrived by now, and are the first that it finds.
            std::thread::sleep(Duration::from_millis(300));
            site.signal(Signal::CONT);
        }
    });
    // What is owed is caught up by and by, and then there is nothing more.
    let wanted = |n: usize| expected(&versions(site.node(0), &name(n), now_ms())).len();
    eventually(SETTLE_MAX, "what is owed runs", || {
        (0..JOBS).all(|n| site.node(0).executions(&name(n)).len() >= wanted(n))
    });
    site.settle();
    let mut fires = 0;
    for n in 0..JOBS {
        judge(site, &name(n));
        fires += wanted(n);
    }
    eprintln!("{fires} fires of {JOBS} jobs");
    assert!(fires >= JOBS * 40, "only {fires} fires");
}

const AWAY: Duration = Duration::from_secs(6);

#[test]
fn what_was_due_before_a_kill_and_a_change_runs_in_the_embedded_store() {
    let _turn = turn();
    a_change_takes_nothing_away_that_was_due(&mut Site::embedded(), Away::Killed);
}

#[test]
fn what_was_due_before_a_stop_and_a_change_runs_in_the_embedded_store() {
    let _turn = turn();
    a_change_takes_nothing_away_that_was_due(&mut Site::embedded(), Away::Stopped);
}

#[test]
fn what_was_due_before_a_kill_and_a_change_runs_on_postgresql() {
    let _turn = turn();
    a_change_takes_nothing_away_that_was_due(&mut Site::postgres(), Away::Killed);
}

#[test]
fn what_was_due_before_a_stop_and_a_change_runs_on_postgresql() {
    let _turn = turn();
    a_change_takes_nothing_away_that_was_due(&mut Site::postgres(), Away::Stopped);
}

/// Seen: handler and payload patched together after a fire, and the claim got the old handler with the new payload; the second
/// attempt of a webhook went to the new URL.
fn an_execution_runs_under_its_own_version(site: &Site) {
    let sink = Sink::start();
    sink.reply("/old", Reply::status(500));
    let schedule = json!({ "after": "0ms" });
    let old = json!({ "is": "old" });
    let worker = json!({ "type": "WORKER", "handler": "old" });
    site.create(0, json!({ "name": "worker", "schedule": schedule, "action": worker, "payload": old, "pool": "slow" }));
    let retry = json!({ "max_attempts": 2, "backoff": "FIXED", "initial_delay_ms": 2_000 });
    let hook = webhook(&sink, "/old");
    site.create(
        1,
        json!({ "name": "hook", "schedule": schedule, "action": hook, "payload": old, "retry_policy": retry }),
    );
    eventually(Duration::from_secs(20), "the first attempt", || sink.on("/old").len() == 1);
    let due = || site.node(0).executions("worker").len() == 1;
    eventually(Duration::from_secs(20), "the other one is due", due);
    let new = json!({ "is": "new" });
    let action = json!({ "type": "WORKER", "handler": "new" });
    site.change(1, "worker", &Change::Patch(json!({ "action": action, "payload": new })));
    let action = webhook(&sink, "/new");
    site.change(2, "hook", &Change::Patch(json!({ "action": action, "payload": new, "timeout_ms": 1 })));

    let pulled = pull(site, "slow");
    assert_eq!(pulled.len(), 1, "{pulled:?}");
    assert_eq!((&pulled[0]["handler"], &pulled[0]["payload"]), (&json!("old"), &old), "{pulled:?}");
    assert_eq!(site.node(0).executions("worker")[0]["job_version"], 1);

    eventually(Duration::from_secs(20), "it is dead", || site.node(0).executions("hook")[0]["state"] == "DEAD");
    let bodies: Vec<Value> = sink.on("/old").iter().map(|d| serde_json::from_slice(&d.body).unwrap()).collect();
    assert_eq!((bodies.len(), sink.on("/new").len()), (2, 0));
    assert!(bodies.iter().all(|body| *body == old), "{bodies:?}");
    assert_eq!(site.node(0).executions("hook")[0]["job_version"], 1);
}

#[test]
fn an_execution_runs_under_its_own_version_in_the_embedded_store() {
    let _turn = turn();
    an_execution_runs_under_its_own_version(&Site::embedded());
}

#[test]
fn an_execution_runs_under_its_own_version_on_postgresql() {
    let _turn = turn();
    an_execution_runs_under_its_own_version(&Site::postgres());
}

/// Seen: with changes within 300 ms of an instant, by way of any node, runs off the schedule and while paused; and instants after a
/// resume that nobody took over.
fn changes_close_to_instants_are_exact(site: &Site) {
    const JOBS: usize = 60;
    const ROUNDS: i64 = 6;
    let sink = Sink::start();
    let name = |n: usize| format!("close-{n}");
    for n in 0..JOBS {
        let action = if n.is_multiple_of(3) { webhook(&sink, "/ok") } else { json!({ "type": "NOOP" }) };
        let schedule = json!({ "every_ms": 1_000, "phase_ms": 0 });
        site.create(n, json!({ "name": name(n), "schedule": schedule, "action": action, "catch_up": catch_up() }));
    }
    let first_ms = next(1_000, 500);
    std::thread::scope(|scope| {
        for lane in 0..6_usize {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // Before and after the instant, from 300 ms before to 300 ms after it.
                    for (step, n) in (lane..JOBS).step_by(6).enumerate() {
                        sleep_until(first_ms + round * 1_000 - 300 + step as i64 * 60);
                        let phase = json!({ "schedule": { "every_ms": 1_000, "phase_ms": (round + 1) % 2 * 500 } });
                        let change = match n % 2 {
                            0 if round % 2 == 0 => Change::Pause,
                            0 => Change::Resume,
                            _ => Change::Patch(phase),
                        };
                        site.change(n + round as usize, &name(n), &change);
                    }
                }
            });
        }
    });
    for n in 0..JOBS {
        site.change(n, &name(n), &Change::Pause);
    }
    std::thread::sleep(Duration::from_millis(1_000));
    site.settle();
    let mut numbers = BTreeSet::new();
    for n in 0..JOBS {
        judge(site, &name(n));
        numbers.extend(ran(&site.node(n).executions(&name(n))).into_values());
    }
    assert!(numbers.len() >= 3, "only these versions ran: {numbers:?}");
}

#[test]
fn changes_close_to_instants_are_exact_in_the_embedded_store() {
    let _turn = turn();
    changes_close_to_instants_are_exact(&Site::embedded());
}

#[test]
fn changes_close_to_instants_are_exact_on_postgresql() {
    let _turn = turn();
    changes_close_to_instants_are_exact(&Site::postgres());
}
