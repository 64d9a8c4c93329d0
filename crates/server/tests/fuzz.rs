//! Requests that nobody thought of, at the real router on the real engine: bodies of jobs, cursors and filters in addresses, and
//! the worker protocol. Whatever is sent, the answer is well-formed, and never that we are broken.

mod rig;

use axum::body::Body;
use campanile_testkit::fuzz;
use http::{Method, Request};
use rig::Rig;
use serde_json::Value;
use std::time::Duration;

/// How long an answer may take before it counts as waiting for something to happen, which some requests ask for.
const WAITS: Duration = Duration::from_millis(40);

/// Runs a target against a rig of its own.
fn run(target: &str, words: &[&str], request: impl Fn(&[u8]) -> Option<Request<Body>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rig = runtime.block_on(prepared());
    fuzz::run(target, words, |input| match request(input) {
        Some(request) => runtime.block_on(answer(&rig, request)),
        None => "not a request".into(),
    });
    runtime.block_on(async {
        let healthy = rig.get("/v1/jobs?limit=1").await;
        assert_eq!(healthy.status, 200, "it serves on: {}", healthy.text);
    });
}

/// A rig with something in its lists.
async fn prepared() -> Rig {
    let rig = Rig::ready().await;
    for n in 0..5 {
        let body = format!("{{\"name\":\"job-{n}\",\"action\":{{\"type\":\"WORKER\",\"handler\":\"mail\"}}}}");
        assert_eq!(rig.post("/v1/jobs", &body).await.status, 201);
        rig.post(&format!("/v1/jobs/name:job-{n}/run"), "{}").await;
    }
    rig
}

/// Sends it, and checks what every answer promises. Says which one it was.
async fn answer(rig: &Rig, request: Request<Body>) -> String {
    let shown = format!("{} {}", request.method(), request.uri());
    let Ok(answer) = tokio::time::timeout(WAITS, rig.send(request)).await else { return "waits".into() };
    assert!(answer.status.as_u16() < 500, "{shown}: {} {}", answer.status, answer.text);
    let kind = answer.header("content-type");
    if answer.status.as_u16() >= 400 {
        assert_eq!(kind, "application/problem+json", "{shown}: {}", answer.text);
        let (status, code) = answer.refusal();
        assert!(!code.is_empty(), "{shown}: {}", answer.text);
        let fields = answer.json()["errors"].as_array().map_or(0, Vec::len);
        return format!("{status} {code} {}", fields.min(3));
    }
    if kind == "application/json" {
        let body: Value = answer.json();
        return format!("{} {}", answer.status, body.as_object().map_or(0, |fields| fields.len()));
    }
    answer.status.to_string()
}

fn post(path: &str, input: &[u8]) -> Option<Request<Body>> {
    let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    request.body(Body::from(input.to_vec())).ok()
}

#[test]
fn jobs() {
    let words = [
        "\"name\":",
        "\"schedule\":",
        "\"cron\":\"* * * * *\"",
        "\"every\":\"1h\"",
        "\"at\":",
        "\"in\":\"5s\"",
        "\"timezone\":",
        "\"action\":",
        "\"type\":\"NOOP\"",
        "\"type\":\"WEBHOOK\"",
        "\"type\":\"WORKER\"",
        "\"handler\":\"mail\"",
        "\"url\":\"https://example.com\"",
        "\"headers\":{",
        "\"payload\":",
        "\"retry\":",
        "\"max_attempts\":",
        "\"backoff\":",
        "\"overlap\":",
        "\"catch_up\":",
        "\"timeout\":",
        "\"tags\":[",
        "\"priority\":",
        "\"pool\":",
        "\"expect\":",
        "\"if_exists\":",
        "\"window\":",
        "\"blackout\":",
        "\"notify\":",
        ",",
        "{",
        "}",
        "[",
        "]",
    ];
    run("job", &words, |input| post("/v1/jobs", input));
}

#[test]
fn cursors_and_filters() {
    let words = [
        "/v1/jobs?",
        "/v1/executions?",
        "/v1/dead?",
        "/v1/jobs/name:job-1/executions?",
        "/v1/jobs/name:job-1/why?at=",
        "cursor=",
        "limit=",
        "filter=",
        "state:DEAD",
        "&",
        "=",
        "%",
        "%3A",
        "from=",
        "until=",
        "sort=",
        "case=camel",
        "name:",
        "job_",
        "exec_",
        "2026-11-16T00:00:00Z",
        "/v1/pools/",
        "/v1/stats?",
        "/v1/cluster",
    ];
    run("query", &words, |input| {
        let text = std::str::from_utf8(input).ok()?;
        Request::builder().uri(format!("/{}", text.trim_start_matches('/'))).body(Body::empty()).ok()
    });
}

#[test]
fn worker_protocol() {
    let words = [
        "claim\n",
        "heartbeat\n",
        "complete\n",
        "release\n",
        "\"worker_id\":\"w\"",
        "\"capacity\":",
        "\"pools\":[\"short\"]",
        "\"handlers\":[\"mail\"]",
        "\"wait_ms\":0",
        "\"executions\":[",
        "\"execution_id\":",
        "\"fence\":",
        "\"attempt\":",
        "\"outcome\":\"SUCCEEDED\"",
        "\"outcome\":\"FAILED\"",
        "\"error\":{",
        "\"progress\":",
        "\"checkpoint\":",
        "\"logs\":[",
        "\"result\":",
        "\"retry_after\":",
        "\"snooze\":",
        "{",
        "}",
        "[",
        "]",
        ",",
    ];
    run("worker", &words, |input| {
        let cut = input.iter().position(|byte| *byte == b'\n')?;
        let (path, body) = (std::str::from_utf8(&input[..cut]).ok()?, &input[cut + 1..]);
        post(&format!("/internal/v1/executions/{path}"), body)
    });
}
