//! The worker of twelve lines in the guide is a whole worker: it takes work, runs it, and says how it ended.

mod common;

use common::{Server, campanile, eventually};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/worker.sh");

/// A process group that ends with its handle.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

#[test]
fn the_guide_shows_the_script_that_is_tested() {
    let script = std::fs::read_to_string(SCRIPT).unwrap();
    let lines = script.lines().count();
    assert!(lines <= 12, "{lines} lines");
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/workers.md")).unwrap();
    assert!(guide.contains(script.trim()), "docs/guides/workers.md does not show tests/worker.sh as it is");
}

#[test]
fn twelve_lines_of_bash_are_a_worker() {
    for tool in ["bash", "curl", "jq"] {
        let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(found.is_ok(), "this test needs {tool}: install it with the system's package manager");
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let job = |name: &str, payload: serde_json::Value, attempts: u32| {
        let body = json!({
            "name": name, "schedule": {"after": "0ms"}, "pool": "bash",
            "action": {"type": "WORKER", "handler": "greet"}, "payload": payload,
            "retry_policy": {"max_attempts": attempts, "initial_delay_ms": 10, "max_delay_ms": 10},
        });
        server.post("/v1/jobs", &body);
    };
    job("greeting", json!({"name": "world"}), 1);
    job("broken", json!({"name": 7}), 2);
    let mut worker = Command::new("bash");
    worker.arg(SCRIPT).args(["jq", "-e", r#""hello " + (.name | ascii_upcase)"#]);
    worker.env("CAMPANILE_URL", server.url()).env("POOL", "bash").stdout(Stdio::null()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut worker, 0);
    let _worker = Group(worker.spawn().unwrap());
    let state = |name: &str| server.executions(name).first().map(|e| e["state"].clone()).unwrap_or_default();
    eventually(Duration::from_secs(30), "the greeting is done", || state("greeting") == "SUCCEEDED");
    eventually(Duration::from_secs(30), "the broken one is dead", || state("broken") == "DEAD");
    let id = server.executions("greeting")[0]["id"].as_str().unwrap().to_owned();
    let attempts = server.get(&format!("/v1/executions/{id}/attempts"));
    assert!(attempts.to_string().contains("hello WORLD"), "its output is kept: {attempts}");
    let broken = server.executions("broken")[0].clone();
    assert_eq!(broken["attempt"], 2, "{broken}");
    // And it is what the command line shows.
    let shown = common::run(campanile().env("CAMPANILE_URL", server.url()).args(["exec", "get", &id])).code(0);
    assert!(shown.stdout.contains("SUCCEEDED"), "{shown:?}");
}
