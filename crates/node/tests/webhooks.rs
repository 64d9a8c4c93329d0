//! Webhooks from the real binary to a real target: what a target sees, and what slow ones do to others.

mod common;

use common::{Reply, Server, Sink, eventually};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::time::Duration;

const SLOW: usize = 2_500;

#[test]
fn thousands_of_slow_targets_do_not_hold_up_fast_ones() {
    // The sink lives here, and needs a descriptor for each request.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit can be raised to the hard one");
    let sink = Sink::start();
    sink.reply("/slow", Reply::after(Duration::from_secs(25)));
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let job = |name: String, path: &str| json!({ "name": name, "schedule": { "after": "100ms" }, "action": { "type": "WEBHOOK", "url": sink.url(path) } });
    for start in (0..SLOW).step_by(500) {
        let jobs: Vec<Value> = (start..start + 500).map(|n| job(format!("slow-{n}"), "/slow")).collect();
        let answer = server.post("/v1/jobs:batch", &json!({ "jobs": jobs }));
        assert!(answer["results"].as_array().unwrap().iter().all(|r| r["status"] == 201), "{answer}");
    }
    eventually(Duration::from_secs(20), "all slow requests are under way", || sink.on("/slow").len() == SLOW);
    for n in 0..50 {
        server.post("/v1/jobs", &job(format!("fast-{n}"), "/fast"));
    }
    eventually(Duration::from_secs(20), "the fast ones are done", || sink.on("/fast").len() == 50);
    let done = || server.get("/v1/executions?state=SUCCEEDED&limit=500");
    eventually(Duration::from_secs(20), "and recorded", || done()["data"].as_array().unwrap().len() == 50);
    // Judged by order, not by time: not one of the slow ones has ended yet.
    let done = done();
    let names: Vec<&str> = done["data"].as_array().unwrap().iter().map(|e| e["job_name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("fast-")), "{names:?}");
}

#[test]
fn a_target_decides_about_retries_and_its_job() {
    let sink = Sink::start();
    sink.replies("/flaky", &[Reply::status(503), Reply::status(429), Reply::status(200)]);
    sink.reply("/gone", Reply::status(410));
    sink.reply("/refused", Reply::status(422));
    sink.reply("/never", Reply::status(500));
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let create = |name: &str, schedule: Value| {
        server.post(
            "/v1/jobs",
            &json!({
                "name": name, "schedule": schedule, "payload": { "n": 1 },
                "action": { "type": "WEBHOOK", "url": sink.url(&format!("/{name}")) },
                "retry_policy": { "max_attempts": 4, "backoff": "FIXED", "initial_delay_ms": 50 },
            }),
        )
    };
    for name in ["flaky", "refused", "never"] {
        create(name, json!({ "after": "0s" }));
    }
    create("gone", json!({ "every": "1s" }));
    let state_of = |name: &str| server.executions(name).first().map(|e| e["state"].as_str().unwrap().to_owned());
    let ends = |name: &str, state: &str| {
        eventually(Duration::from_secs(20), name, || state_of(name).as_deref() == Some(state));
        server.executions(name)[0].clone()
    };
    assert_eq!(ends("flaky", "SUCCEEDED")["attempt"], 3);
    let refused = ends("refused", "DEAD");
    assert_eq!((&refused["attempt"], &refused["reason"]), (&json!(1), &json!("PERMANENT_FAILURE")));
    let never = ends("never", "DEAD");
    assert_eq!((&never["attempt"], &never["reason"]), (&json!(4), &json!("ATTEMPTS_EXHAUSTED")));
    let attempts = server.get(&format!("/v1/executions/{}/attempts", never["id"].as_str().unwrap()));
    assert_eq!(attempts["data"].as_array().unwrap().len(), 4);
    // Gone for good: the job is paused, and the target is left alone.
    eventually(Duration::from_secs(20), "the job is paused", || server.get("/v1/jobs/name:gone")["state"] == "PAUSED");
    assert_eq!(sink.on("/gone").len(), 1);
    let flaky = sink.on("/flaky");
    assert_eq!(flaky.iter().map(|d| d.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(flaky.windows(2).all(|pair| pair[0].fence < pair[1].fence && pair[0].execution == pair[1].execution));
    assert!(flaky.iter().all(|d| d.body == br#"{"n":1}"# && d.arrived_at_ms >= d.scheduled_at_ms));
}
