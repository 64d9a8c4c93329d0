//! The real binary, killed and stopped at random moments under load, judged by what its targets saw and what it remembers.
//!
//! The sink lives in the test's process and is never harmed; it is the witness. Every acknowledged job must exist, every
//! expected fire must have its one execution, none may start early, and no execution may have two accepted completions.
//! The seed is printed; `CAMPANILE_CRASH_SEED` repeats it (the moments of the kills, not the machine's timing) and
//! `CAMPANILE_CRASH_KILLS` makes it longer.

mod common;

use campanile_model::random::{Random, SplitMix};
use common::{Delivery, Reply, Server, Sink, eventually, http, now_ms};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EVERY_MS: i64 = 250;
const RECURRING: usize = 30;

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn ms(value: &Value) -> i64 {
    let text = value.as_str().expect("an instant");
    text.parse::<campanile_model::Timestamp>().expect("RFC 3339").millis()
}

fn webhook(sink: &Sink, path: &str) -> Value {
    json!({ "type": "WEBHOOK", "url": sink.url(path) })
}

/// Many attempts, close together: a kill burns one.
fn retry() -> Value {
    json!({ "max_attempts": 500, "backoff": "FIXED", "initial_delay_ms": 20 })
}

/// A job that was acknowledged: its id, and its instant where it is a one-off.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    name: String,
    at_ms: Option<i64>,
    acknowledged_at_ms: i64,
}

#[test]
fn killed_at_random_moments_it_loses_nothing_and_doubles_nothing() {
    let kills = env("CAMPANILE_CRASH_KILLS", 20);
    let seed = env("CAMPANILE_CRASH_SEED", now_ms() as u64);
    eprintln!("seed {seed}, {kills} kills");
    let random = SplitMix::new(seed);
    let sink = Sink::start();
    // Slow enough that a kill finds requests under way.
    sink.reply("/slow", Reply::after(Duration::from_millis(60)));
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);

    let catch_up = json!({ "mode": "all", "max_age_ms": 3_600_000 });
    let mut known = Vec::new();
    for n in 0..RECURRING {
        let name = format!("recurring-{n}");
        let path = if n % 3 == 0 { "/slow" } else { "/fast" };
        let job = server.post(
            "/v1/jobs",
            &json!({
                "name": name, "schedule": { "every": format!("{EVERY_MS}ms") }, "action": webhook(&sink, path),
                "retry_policy": retry(), "catch_up": catch_up,
            }),
        );
        let id = job["id"].as_str().unwrap().to_owned();
        known.push(Known { id, name, at_ms: None, acknowledged_at_ms: ms(&job["created_at"]) });
    }

    let creator = Creator::start(server.url().to_owned(), sink.clone(), seed);
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(random.next() % 900));
        server.kill_9();
        if random.next().is_multiple_of(4) {
            std::thread::sleep(Duration::from_millis(random.next() % 1_500));
        }
        server = Server::start(dir.path(), &[]);
        creator.set_url(server.url());
        // Sometimes it dies again before it has found everything that was lost.
        if kill % 5 == 4 {
            server.kill_9();
            server = Server::start(dir.path(), &[]);
            creator.set_url(server.url());
        }
    }
    std::thread::sleep(Duration::from_millis(1_000));
    known.extend(creator.stop());
    let end_ms = now_ms() - 500;
    for job in known.iter().filter(|job| job.at_ms.is_none()) {
        server.post(&format!("/v1/jobs/{}/pause", job.id), &json!({}));
    }
    settle(&server);
    check(&server, &sink.deliveries(), &known, end_ms);
}

/// Waits until nothing is under way any more.
fn settle(server: &Server) {
    eventually(Duration::from_secs(120), "everything ends", || {
        ["PENDING", "RUNNING", "RETRYING"].iter().all(|state| {
            let page = server.get(&format!("/v1/executions?limit=1&state={state}"));
            page["data"].as_array().unwrap().is_empty()
        })
    });
}

fn check(server: &Server, deliveries: &[Delivery], known: &[Known], end_ms: i64) {
    // Never early, by the witness's clock, which is the server's: they share a machine.
    let early: Vec<&Delivery> = deliveries.iter().filter(|d| d.arrived_at_ms < d.scheduled_at_ms).collect();
    assert!(early.is_empty(), "early: {early:?}");
    // Attempts and fences of one execution grow together, and no attempt is delivered twice.
    let mut by_execution: BTreeMap<&str, Vec<&Delivery>> = BTreeMap::new();
    deliveries.iter().for_each(|d| by_execution.entry(&d.execution).or_default().push(d));
    for (execution, tries) in &by_execution {
        for pair in tries.windows(2) {
            assert!(
                pair[0].attempt < pair[1].attempt && pair[0].fence < pair[1].fence,
                "{execution}: {:?} then {:?}",
                (pair[0].attempt, pair[0].fence),
                (pair[1].attempt, pair[1].fence)
            );
        }
    }
    let (mut fires, mut lost_attempts) = (0, 0);
    for job in known {
        let found = server.http("GET", &format!("/v1/jobs/{}", job.id), None);
        assert_eq!(found.status, 200, "an acknowledged job is gone: {job:?}");
        let executions = server.executions(&job.name);
        let expected: Vec<i64> = match job.at_ms {
            Some(at) => vec![at],
            None => {
                let first = (job.acknowledged_at_ms / EVERY_MS + 1) * EVERY_MS;
                (first..=end_ms).step_by(EVERY_MS as usize).collect()
            }
        };
        let mut by_instant: HashMap<i64, &Value> = HashMap::new();
        for execution in &executions {
            assert!(by_instant.insert(ms(&execution["fire_at"]), execution).is_none(), "two for one fire: {execution}");
        }
        for at in expected {
            fires += 1;
            let execution = by_instant.get(&at).unwrap_or_else(|| {
                let (row, skips) = (&found.body, server.get(&format!("/v1/jobs/{}/skips", job.id)));
                panic!("{job:?}: no execution for {at}, but {executions:?}; job {row}; skips {skips}")
            });
            assert_eq!(execution["state"], "SUCCEEDED", "{execution}");
            let id = execution["id"].as_str().unwrap();
            assert!(by_execution.contains_key(id), "{id} succeeded and its target saw nothing");
            if execution["attempt"] == 1 {
                continue;
            }
            let attempts = server.get(&format!("/v1/executions/{id}/attempts"));
            let outcomes: Vec<&str> =
                attempts["data"].as_array().unwrap().iter().map(|a| a["outcome"].as_str().unwrap_or("-")).collect();
            let accepted = outcomes.iter().filter(|outcome| **outcome == "SUCCEEDED").count();
            assert_eq!(accepted, 1, "{id}: {outcomes:?}");
            assert_eq!(outcomes.last(), Some(&"SUCCEEDED"), "{id}: {outcomes:?}");
            lost_attempts += outcomes.iter().filter(|outcome| **outcome == "WORKER_LOST").count();
        }
    }
    // A run in which nothing happened proves nothing.
    assert!(fires >= 500, "only {fires} fires");
    assert!(lost_attempts > 0, "no kill met a running attempt");
    eprintln!("{} jobs, {fires} fires, {} deliveries, {lost_attempts} attempts lost", known.len(), deliveries.len());
}

/// Creates one-off jobs for as long as it lives, and remembers which were acknowledged.
struct Creator {
    url: Arc<Mutex<String>>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Known>>,
}

impl Creator {
    fn start(url: String, sink: Sink, seed: u64) -> Self {
        let (url, stop) = (Arc::new(Mutex::new(url)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (url, stop) = (url.clone(), stop.clone());
            move || {
                let random = SplitMix::new(!seed);
                let mut known = Vec::new();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("one-off-{n}");
                    let at_ms = now_ms() + 20 + (random.next() % 1_500) as i64;
                    let at = campanile_model::Timestamp::from_millis(at_ms).to_string();
                    let body = json!({
                        "name": name, "schedule": { "at": at, "allow_past": true }, "action": webhook(&sink, "/fast"),
                        "retry_policy": retry(), "catch_up": { "mode": "all", "max_age_ms": 3_600_000 },
                    });
                    let target = format!("{}/v1/jobs", url.lock().unwrap());
                    let answer = http("POST", &target, &[("idempotency-key", name.as_str())], Some(&body));
                    if answer.status == 201 {
                        let id = answer.body["id"].as_str().unwrap().to_owned();
                        // An instant that had passed when it was accepted means at once.
                        let at_ms = Some(at_ms.max(ms(&answer.body["created_at"])));
                        known.push(Known { id, name, at_ms, acknowledged_at_ms: now_ms() });
                    }
                    std::thread::sleep(Duration::from_millis(random.next() % 12));
                }
                known
            }
        });
        Self { url, stop, thread }
    }

    fn set_url(&self, url: &str) {
        *self.url.lock().unwrap() = url.to_owned();
    }

    fn stop(self) -> Vec<Known> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the creator lives")
    }
}

#[test]
fn stopped_for_thirty_seconds_it_accounts_for_every_fire() {
    let sink = Sink::start();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let modes = ["none", "last", "all"];
    let mut jobs = Vec::new();
    for mode in modes {
        let job = server.post(
            "/v1/jobs",
            &json!({
                "name": mode, "schedule": { "every": "1s" }, "action": webhook(&sink, "/"),
                "catch_up": { "mode": mode, "max_age_ms": 3_600_000 },
            }),
        );
        jobs.push((mode, ms(&job["created_at"])));
    }
    std::thread::sleep(Duration::from_millis(2_500));
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(30));
    server.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(3_000));
    let end_ms = now_ms() - 500;
    jobs.iter().for_each(|(mode, _)| drop(server.post(&format!("/v1/jobs/name:{mode}/pause"), &json!({}))));
    settle(&server);
    for (mode, created_ms) in jobs {
        let executions = server.executions(mode);
        let instants: HashSet<i64> = executions.iter().map(|e| ms(&e["fire_at"])).collect();
        assert_eq!(instants.len(), executions.len(), "{mode}: two for one fire");
        let skips = server.get(&format!("/v1/jobs/name:{mode}/skips"));
        let skips: Vec<(i64, i64)> =
            skips["data"].as_array().unwrap().iter().map(|s| (ms(&s["from"]), ms(&s["to"]))).collect();
        let expected: Vec<i64> = (created_ms / 1_000 + 1..=end_ms / 1_000).map(|s| s * 1_000).collect();
        for at in &expected {
            let skipped = skips.iter().any(|(from, to)| (from..=to).contains(&at));
            assert!(instants.contains(at) || skipped, "{mode}: nothing is known of {at}");
        }
        let ran = expected.iter().filter(|at| instants.contains(at)).count();
        match mode {
            "all" => assert_eq!(ran, expected.len()),
            "last" => assert!((15..=20).contains(&ran), "{mode}: {ran} of {}", expected.len()),
            _ => assert!((14..=19).contains(&ran), "{mode}: {ran} of {}", expected.len()),
        }
    }
    let deliveries = sink.deliveries();
    assert!(deliveries.iter().all(|d| d.arrived_at_ms >= d.scheduled_at_ms), "early");
    let distinct: HashSet<&str> = deliveries.iter().map(|d| d.execution.as_str()).collect();
    assert_eq!(distinct.len(), deliveries.len(), "a stop is no crash: nothing is delivered twice");
}
