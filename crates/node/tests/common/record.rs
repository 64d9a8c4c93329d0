//! Writes down what clients asked, what a sink saw and what was done to the nodes, for the checker (`campanile-check`):
//! lines of JSON, a file for each who writes.

use super::judge::ms;
use super::{Answer, http_within, now_ms, runtime};
use campanile_model::random::{Random, SplitMix};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The version of the lines, as the checker reads them.
pub const SCHEMA: u32 = 1;
/// How long an answer may take before another node is asked.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Time limit of an attempt.
const TIMEOUT_MS: u64 = 3_000;

/// One file, and who writes it.
pub struct Recorder {
    name: String,
    file: Mutex<(std::fs::File, u64)>,
}

impl Recorder {
    /// A new file in this folder.
    pub fn new(folder: &Path, name: &str) -> Arc<Self> {
        let file = std::fs::File::create(folder.join(format!("{name}.ndjson"))).expect("a file");
        Arc::new(Self { name: name.to_owned(), file: Mutex::new((file, 0)) })
    }

    /// Writes an event.
    pub fn write(&self, ev: &str, fields: Value) {
        let Value::Object(fields) = fields else { panic!("{ev}: no fields") };
        let mut file = self.file.lock().unwrap();
        file.1 += 1;
        let mut line = Map::new();
        line.insert("ev".into(), ev.into());
        line.insert("mono_ns".into(), mono_ns().into());
        line.insert("wall_ns".into(), wall_ns().into());
        line.insert("node".into(), self.name.as_str().into());
        line.insert("seq".into(), file.1.into());
        line.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        file.0.write_all(text.as_bytes()).expect("room for the recording");
    }
}

/// The machine's monotonic clock.
pub fn mono_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The machine's wall clock.
pub fn wall_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A sink that writes down every call, and which of them counted.
#[derive(Clone)]
pub struct RecordingSink {
    address: SocketAddr,
}

#[derive(Default)]
struct Seen {
    /// The newest fence of each execution.
    fences: HashMap<String, u64>,
    accepted: HashSet<String>,
}

struct SinkState {
    recorder: Arc<Recorder>,
    seen: Mutex<Seen>,
}

impl RecordingSink {
    pub fn start(recorder: Arc<Recorder>, address: &str) -> Self {
        let state = Arc::new(SinkState { recorder, seen: Mutex::default() });
        let address = format!("{address}:0");
        let listener =
            super::block_on(async move { tokio::net::TcpListener::bind(address).await.expect("an address of ours") });
        let address = listener.local_addr().expect("an address");
        let app = axum::Router::new().fallback(record).with_state(state);
        runtime().spawn(async move { axum::serve(listener, app).await });
        Self { address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn record(
    axum::extract::State(state): axum::extract::State<Arc<SinkState>>,
    request: axum::extract::Request,
) -> http::StatusCode {
    let (status, delay) = state.record(&request.into_parts().0);
    tokio::time::sleep(delay).await;
    status
}

impl SinkState {
    /// Writes a call down, and says how it is answered: `/slow` takes its time, and `/flaky` refuses every third
    /// execution's first try. What stands behind `?` is the mark of the definition.
    fn record(&self, head: &http::request::Parts) -> (http::StatusCode, Duration) {
        let (arrived_wall_ns, arrived_mono_ns) = (wall_ns(), mono_ns());
        let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let number = |name: &str| text(name).parse::<u64>().unwrap_or_default();
        let (execution, attempt, fence) = (text("x-execution-id"), number("x-attempt"), number("x-fence-token"));
        let is_third = execution.bytes().map(u64::from).sum::<u64>().is_multiple_of(3);
        let path = head.uri.path();
        let status = if path == "/flaky" && attempt == 1 && is_third { 500 } else { 200 };
        let mut seen = self.seen.lock().unwrap();
        let newest = seen.fences.entry(execution.clone()).or_default();
        let is_newest = fence >= *newest;
        *newest = fence.max(*newest);
        let accepted = status == 200 && is_newest && seen.accepted.insert(execution.clone());
        let fields = json!({
            "execution": execution, "job_name": text("x-job-name"), "fire_at": text("x-scheduled-at"),
            "attempt": attempt, "fence": fence, "arrived_wall_ns": arrived_wall_ns, "arrived_mono_ns": arrived_mono_ns, "status": status,
            "accepted": accepted, "mark": head.uri.query(),
        });
        self.recorder.write("effect", fields);
        let delay = Duration::from_millis(if path == "/slow" { 300 } else { 0 });
        (http::StatusCode::from_u16(status).expect("a status"), delay)
    }
}

/// The nodes that can be asked: their names and addresses.
pub type Nodes = Arc<Mutex<Vec<(String, String)>>>;

/// A client whose every question is written down.
pub struct Client {
    pub recorder: Arc<Recorder>,
    pub nodes: Nodes,
    pub random: SplitMix,
    ops: AtomicU64,
}

/// What a client asks for.
pub struct Question<'a> {
    pub kind: &'a str,
    pub method: &'a str,
    pub path: String,
    pub key: Option<String>,
    pub body: Value,
    /// Fields of both lines.
    pub both: Value,
    /// Fields of the first line.
    pub first: Value,
}

impl Client {
    pub fn new(recorder: Arc<Recorder>, nodes: Nodes, seed: u64) -> Self {
        Self { recorder, nodes, random: SplitMix::new(seed), ops: AtomicU64::new(0) }
    }

    /// Any node; waits until there is one.
    fn any(&self) -> (String, String) {
        loop {
            let nodes = self.nodes.lock().unwrap();
            if !nodes.is_empty() {
                return nodes[self.random.next() as usize % nodes.len()].clone();
            }
            drop(nodes);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks any node, once.
    pub fn ask(&self, question: &Question<'_>) -> Answer {
        let (via, url) = self.any();
        let op = format!("{}-{}", self.recorder.name, self.ops.fetch_add(1, Ordering::Relaxed));
        let line = |phase: &str, more: &[&Value]| {
            let mut fields = json!({
                "op": op, "phase": phase, "kind": question.kind, "tenant": "default", "via": via, "key": question.key,
            });
            let all = fields.as_object_mut().expect("an object");
            for more in more {
                all.extend(more.as_object().cloned().unwrap_or_default());
            }
            self.recorder.write("op", fields);
        };
        line("invoke", &[&question.both, &question.first]);
        let key = question.key.as_deref().map(|key| ("idempotency-key", key));
        let url = format!("{url}{}", question.path);
        let answer = http_within(ANSWER_MAX, question.method, &url, key.as_slice(), Some(&question.body));
        let phase = match answer.status {
            200..300 => "ok",
            400..500 => "fail",
            _ => "info",
        };
        let body = &answer.body;
        let told = json!({
            "status": answer.status, "code": body["code"], "version": body["version"], "created_at": body["created_at"],
            "updated_at": body["updated_at"], "fire_at": body["fire_at"], "state": body["state"],
        });
        let mut told = told.as_object().cloned().expect("an object");
        told.retain(|_, value| !value.is_null());
        let mut second = json!({ "answer": told });
        if phase == "ok" {
            let field = if body["job_id"].is_null() { "job" } else { "execution" };
            second[field] = body["id"].clone();
        }
        line(phase, &[&question.both, &second]);
        answer
    }

    /// Asks until there is an answer that decides, or it is over.
    pub fn ask_until(&self, question: &Question<'_>, is_over: impl Fn() -> bool) -> Option<Answer> {
        loop {
            let answer = self.ask(question);
            if (200..500).contains(&answer.status) && answer.status != 429 {
                return Some(answer);
            }
            if is_over() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Reads a job or an execution from any node.
    pub fn read(&self, what: &str, id: &str) -> u16 {
        let (via, url) = self.any();
        self.read_at(&via, &url, what, id)
    }

    pub fn read_at(&self, via: &str, url: &str, what: &str, id: &str) -> u16 {
        let began_mono_ns = mono_ns();
        let answer = http_within(ANSWER_MAX, "GET", &format!("{url}/v1/{what}s/{id}"), &[], None);
        let body = &answer.body;
        let mut fields =
            json!({ "began_mono_ns": began_mono_ns, "tenant": "default", "via": via, "status": answer.status });
        fields[what] = id.into();
        if answer.status == 200 {
            fields["state"] = body["state"].clone();
            match what {
                "job" => fields["version"] = body["version"].clone(),
                _ => (fields["attempt"], fields["fence"]) = (body["attempt"].clone(), body["fence_token"].clone()),
            }
        }
        self.recorder.write("read", fields);
        answer.status
    }
}

/// The question that creates a job with a webhook; `schedule` as the API shows it, with milliseconds for instants.
pub fn creation<'a>(name: &str, schedule: &Value, url: &str) -> Question<'a> {
    let (body, spec) = definition(name, schedule, url);
    Question {
        kind: "create",
        method: "POST",
        path: "/v1/jobs".into(),
        key: Some(name.to_owned()),
        body,
        both: json!({ "name": name }),
        first: json!({ "spec": spec }),
    }
}

/// The question that gives a job another definition.
pub fn update<'a>((job, name): (&str, &str), schedule: &Value, url: &str, key: &str) -> Question<'a> {
    let (body, spec) = definition(name, schedule, url);
    Question {
        kind: "update",
        method: "PATCH",
        path: format!("/v1/jobs/{job}"),
        key: Some(key.to_owned()),
        body,
        both: json!({ "job": job }),
        first: json!({ "spec": spec }),
    }
}

/// What is sent of a definition, and what the checker is told of it.
fn definition(name: &str, schedule: &Value, url: &str) -> (Value, Value) {
    let sent = match schedule["type"].as_str() {
        Some("AT") => {
            let at = campanile_model::Timestamp::from_millis(schedule["at"].as_i64().expect("an instant"));
            json!({ "at": at.to_string(), "allow_past": true })
        }
        Some("EVERY") => json!({ "every_ms": schedule["every_ms"], "phase_ms": schedule["phase_ms"] }),
        _ => Value::Null,
    };
    let retry = json!({ "max_attempts": 500, "backoff": "FIXED", "initial_delay_ms": 50 });
    let catch_up = json!({ "mode": "ALL", "max_age_ms": 3_600_000 });
    let mut body = json!({
        "name": name, "action": { "type": "WEBHOOK", "url": url }, "retry_policy": retry, "catch_up": catch_up,
        "timeout_ms": TIMEOUT_MS,
    });
    if !sent.is_null() {
        body["schedule"] = sent;
    }
    let mut spec = json!({
        "schedule": schedule, "retry_policy": retry, "catch_up": catch_up, "timeout_ms": TIMEOUT_MS, "sink": true,
    });
    if let Some((_, mark)) = url.split_once('?') {
        spec["mark"] = mark.into();
    }
    (body, spec)
}

/// The question that does something to a job: pause or resume it.
pub fn change<'a>(kind: &'a str, job: &str, key: Option<String>) -> Question<'a> {
    let path = format!("/v1/jobs/{job}/{kind}");
    Question { kind, method: "POST", path, key, body: json!({}), both: json!({ "job": job }), first: json!({}) }
}

/// The question that runs a job by hand.
pub fn run<'a>(job: &str, key: &str) -> Question<'a> {
    let path = format!("/v1/jobs/{job}/run");
    let (key, both) = (Some(key.to_owned()), json!({ "job": job }));
    Question { kind: "run", method: "POST", path, key, body: json!({}), both, first: json!({}) }
}

/// The question that cancels one fire of a job.
pub fn cancel<'a>(job: &str, at_ms: i64, key: &str) -> Question<'a> {
    let at = campanile_model::Timestamp::from_millis(at_ms).to_string();
    let both = json!({ "job": job, "fire_at": at_ms });
    let (path, key) = (format!("/v1/jobs/{job}/fires/cancel"), Some(key.to_owned()));
    Question { kind: "cancel", method: "POST", path, key, body: json!({ "at": at }), both, first: json!({}) }
}

/// Writes down everything that the API shows.
pub fn dump(server: &super::Server, names: &[String], recorder: &Recorder) {
    let jobs = pages(server, "/v1/jobs?limit=500");
    let ids: Vec<String> = jobs.iter().map(|job| text(job, "id")).collect();
    let rows = jobs.into_iter().map(|job| {
        json!({
            "id": job["id"], "name": job["name"], "tenant": "default", "state": job["state"], "version": job["version"],
            "created_at": job["created_at"], "updated_at": job["updated_at"],
        })
    });
    recorder.write("dump", json!({ "jobs": rows.collect::<Vec<_>>(), "nodes": names }));
    let skips = in_parallel(&ids, |id| pages(server, &format!("/v1/jobs/{id}/skips?limit=500")));
    recorder.write("dump", json!({ "skips": skips.concat() }));
    let versions = in_parallel(&ids, |id| {
        let pages = pages(server, &format!("/v1/jobs/{id}/versions?limit=500"));
        pages.iter().map(version_row).collect::<Vec<_>>()
    });
    recorder.write("dump", json!({ "versions": versions.concat() }));
    let executions = pages(server, "/v1/executions?limit=500");
    let attempts = in_parallel(&executions, |execution| {
        let id = text(execution, "id");
        let path = format!("/v1/executions/{id}/attempts");
        if execution["attempt"] == 0 { Value::Null } else { server.get(&path)["data"].clone() }
    });
    let rows: Vec<Value> =
        executions.into_iter().zip(attempts).map(|(row, attempts)| execution_row(&row, attempts)).collect();
    rows.chunks(1_000).for_each(|rows| recorder.write("dump", json!({ "executions": rows })));
    let mut counts: HashMap<String, u64> = HashMap::new();
    for count in server.get("/v1/counts")["data"].as_array().expect("counts") {
        *counts.entry(text(count, "state")).or_default() += count["executions"].as_u64().expect("a number");
    }
    let dead: Vec<String> = pages(server, "/v1/dead?limit=500").iter().map(|row| text(row, "id")).collect();
    let depth = server.get("/v1/status")["queue_depth"].clone();
    recorder.write("dump", json!({ "counts": counts, "dead": dead, "gauges": { "queue_depth": depth } }));
}

fn version_row(row: &Value) -> Value {
    shown(row, &["id", "version", "state", "effective_at", "ended_at", "paused_until"])
}

/// These fields of a row, as far as it has them.
fn shown(row: &Value, fields: &[&str]) -> Value {
    let has = fields.iter().filter(|field| !row[**field].is_null());
    Value::Object(has.map(|field| ((*field).to_owned(), row[*field].clone())).collect())
}

fn execution_row(row: &Value, attempts: Value) -> Value {
    let fields = [
        "id",
        "job_id",
        "job_version",
        "fire_at",
        "kind",
        "state",
        "reason",
        "attempt",
        "fence_token",
        "fired_at",
        "claimed_at",
        "first_started_at",
        "started_at",
        "finished_at",
        "outcome",
        "error",
    ];
    let mut shown = shown(row, &fields);
    if !attempts.is_null() {
        shown["attempts"] = attempts;
    }
    shown
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("{field} in {value}")).to_owned()
}

/// All rows of a list.
fn pages(server: &super::Server, path: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{cursor}"));
        all.extend(page["data"].as_array().expect("a list").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) if page["has_more"] == true => cursor = format!("&cursor={next}"),
            _ => return all,
        }
    }
}

/// Four questions at a time, with the answers in order.
fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let chunks = items.chunks(items.len().div_ceil(4).max(1));
    let each = &each;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            chunks.map(|chunk| scope.spawn(move || chunk.iter().map(each).collect::<Vec<R>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("an answer")).collect()
    })
}

/// An instant so far from now.
pub fn from_now(delay_ms: i64) -> i64 {
    now_ms() + delay_ms
}

/// When a job was created, by the server.
pub fn created_at(answer: &Answer) -> i64 {
    ms(&answer.body["created_at"])
}
