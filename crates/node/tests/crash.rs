//! The real binary, killed and stopped at random moments under load, judged by what its targets saw and what it remembers.
//!
//! The sink lives in the test's process and is never harmed; it is the witness. Every acknowledged job must exist, every
//! expected fire must have its one execution, none may start early, and no execution may have two accepted completions.
//! The seed is printed; `CAMPANILE_CRASH_SEED` repeats it (the moments of the kills, not the machine's timing) and
//! `CAMPANILE_CRASH_KILLS` makes it longer.

mod common;

use campanile_model::random::{Random, SplitMix};
use common::creator::Creator;
use common::judge::{Arrival, Due, Known, catch_up, finish, ms, number, retry, settle, webhook};
use common::{Reply, Server, Sink, now_ms};
use rustix::process::Signal;
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

const EVERY_MS: i64 = 250;
const RECURRING: usize = 30;

#[test]
fn killed_at_random_moments_it_loses_nothing_and_doubles_nothing() {
    let kills = number("CAMPANILE_CRASH_KILLS", 20);
    let seed = number("CAMPANILE_CRASH_SEED", now_ms() as u64);
    eprintln!("seed {seed}, {kills} kills");
    let random = SplitMix::new(seed);
    let sink = Sink::start();
    // Slow enough that a kill finds requests under way.
    sink.reply("/slow", Reply::after(Duration::from_millis(60)));
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);

    let mut known = Vec::new();
    for n in 0..RECURRING {
        let name = format!("recurring-{n}");
        let path = if n % 3 == 0 { "/slow" } else { "/fast" };
        let job = server.post(
            "/v1/jobs",
            &json!({
                "name": name, "schedule": { "every": format!("{EVERY_MS}ms") }, "action": webhook(&sink, path),
                "retry_policy": retry(), "catch_up": catch_up(),
            }),
        );
        let id = job["id"].as_str().unwrap().to_owned();
        known.push(Known { id, name, due: Due::Every(EVERY_MS), created_at_ms: ms(&job["created_at"]) });
    }

    let creator = Creator::start(vec![server.url().to_owned()], sink.clone(), seed);
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(random.next() % 900));
        server.kill_9();
        if random.next().is_multiple_of(4) {
            std::thread::sleep(Duration::from_millis(random.next() % 1_500));
        }
        server = Server::start(dir.path(), &[]);
        creator.set_urls(vec![server.url().to_owned()]);
        // Sometimes it dies again before it has found everything that was lost.
        if kill % 5 == 4 {
            server.kill_9();
            server = Server::start(dir.path(), &[]);
            creator.set_urls(vec![server.url().to_owned()]);
        }
    }
    std::thread::sleep(Duration::from_millis(1_000));
    known.extend(creator.stop().known);
    let verdict = finish(&server, &sink, &known, Arrival::InOrder);
    // A run in which nothing happened proves nothing.
    assert!(verdict.fires >= 500, "{verdict:?}");
    assert!(verdict.lost_attempts > 0, "no kill met a running attempt: {verdict:?}");
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
