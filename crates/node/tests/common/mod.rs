//! A harness for tests of the real binary: a server process, and a target that records the webhooks it gets.
//!
//! Everything here blocks and may be used from plain tests and from async ones. Processes die with their handle.

#![allow(dead_code, missing_docs, reason = "each test uses its part of it")]
#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

pub mod judge;
pub mod creator;
pub mod script;
pub mod net;
pub mod record;
pub mod cluster;

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

pub use rustix::process::Signal;

/// How long a server may take until it fires.
const START_MAX: Duration = Duration::from_secs(60);
/// How long it may take to stop in order.
const STOP_MAX: Duration = Duration::from_secs(30);

/// The binary under test.
pub fn campanile() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    // What the developer has set must not leak into tests; but whoever plants a bug wants to see the tests fail.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CAMPANILE_") && name != "CAMPANILE_BUG" {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Where a server runs: its address, and the words before a command that bring it there.
#[derive(Clone, Debug)]
pub struct Place {
    pub address: String,
    pub words: Vec<String>,
}

impl Default for Place {
    fn default() -> Self {
        Self { address: "127.0.0.1".into(), words: Vec::new() }
    }
}

impl Place {
    /// The binary under test, there.
    fn command(&self) -> Command {
        let here = campanile();
        let Some((first, rest)) = self.words.split_first() else { return here };
        let mut there = Command::new(first);
        there.args(rest).arg(here.get_program()).stdin(Stdio::null());
        for (name, value) in here.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }
}

/// A `campanile` process that serves. Killed when dropped.
pub struct Server {
    child: Child,
    url: String,
    data_dir: PathBuf,
}

impl Server {
    /// Starts `campanile dev` on a free port with this data directory, and waits until it fires.
    pub fn start(data_dir: &Path, extra_args: &[&str]) -> Self {
        Self::try_start("dev", data_dir, extra_args).expect("the server starts")
    }

    /// The same with `dev` or `server`, and an error (what it said on stderr) instead of a panic.
    pub fn try_start(command: &str, data_dir: &Path, extra_args: &[&str]) -> Result<Self, String> {
        Self::try_start_in(command, data_dir, extra_args, &[])
    }

    /// The same with variables of its environment.
    pub fn try_start_in(
        command: &str,
        data_dir: &Path,
        extra_args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        Self::try_start_at(&Place::default(), command, data_dir, extra_args, environment)
    }

    /// The same somewhere else than on this host's own network.
    pub fn try_start_at(
        place: &Place,
        command: &str,
        data_dir: &Path,
        extra_args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        std::fs::create_dir_all(data_dir).map_err(|error| error.to_string())?;
        let ready = data_dir.join("ready");
        let _ = std::fs::remove_file(&ready);
        let log = data_dir.join("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).map_err(|error| error.to_string())?;
        let listen = format!("{}:0", place.address);
        let port: &[&str] = if command == "dev" { &["--port", "0"] } else { &["--listen", &listen] };
        let mut child = place
            .command()
            .arg(command)
            .args(port)
            .arg("--data-dir")
            .arg(data_dir)
            .arg("--ready-file")
            .arg(&ready)
            .args(extra_args)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .map_err(|error| error.to_string())?;
        let started = Instant::now();
        loop {
            if let Ok(url) = std::fs::read_to_string(&ready) {
                return Ok(Self { child, url: url.trim().to_owned(), data_dir: data_dir.to_owned() });
            }
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || started.elapsed() > START_MAX {
                let _ = child.kill();
                let _ = child.wait();
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("ended with {ended:?} before it was ready: {said}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Everything that it said on stderr so far, earlier starts included.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.data_dir.join("log")).unwrap_or_default()
    }

    /// Sends a signal, such as `Signal::STOP` and `Signal::CONT`.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("the process is there");
    }

    /// Ends it without a word, and waits until it is gone.
    pub fn kill_9(mut self) {
        self.child.kill().expect("the process is there");
        self.child.wait().expect("it can be waited for");
    }

    /// Asks it to stop in order, and waits until it has.
    pub fn stop_term(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            assert!(asked.elapsed() < STOP_MAX, "it does not stop: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it has ended by itself; `None` if it lives on.
    pub fn wait_end(&mut self, max: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("it can be waited for");
            if ended.is_some() || started.elapsed() > max {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process is still there.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_none()
    }

    /// Runs a command against this server.
    pub fn cli(&self, args: &[&str]) -> Ran {
        run(campanile().env("CAMPANILE_URL", &self.url).args(args))
    }

    /// Sends a request to a path of this server.
    pub fn http(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        http(method, &format!("{}{path}", self.url), &[], body)
    }

    /// `GET`, which must succeed.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.http("GET", path, None);
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.body
    }

    /// `POST`, which must succeed.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.http("POST", path, Some(body));
        assert!((200..300).contains(&answer.status), "POST {path}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// All executions of a job, newest first, whatever their number.
    pub fn executions(&self, job: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/v1/executions?limit=500&job=name:{job}{cursor}"));
            all.extend(page["data"].as_array().expect("a list").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) if page["has_more"] == true => cursor = format!("&cursor={next}"),
                _ => return all,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

impl Ran {
    /// It must have ended so.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Its stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The body as JSON; as a string where it is none.
    pub body: Value,
}

/// Sends a request. A server that does not answer gives status 0.
pub fn http(method: &str, url: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
    http_within(Duration::from_secs(90), method, url, headers, body)
}

/// The same, and a server that does not answer in time gives status 0 too.
pub fn http_within(max: Duration, method: &str, url: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        reqwest::Client::builder().build().expect("a client")
    });
    let mut request = client.request(method.parse().expect("a method"), url).timeout(max);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    block_on(async move {
        let Ok(response) = request.send().await else { return Answer { status: 0, body: Value::Null } };
        let status = response.status().as_u16();
        let Ok(text) = response.text().await else { return Answer { status: 0, body: Value::Null } };
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    })
}

/// Runs a future on the harness's own threads, whether or not the caller is async itself.
fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(future)).join().expect("no panic"))
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    })
}

/// Milliseconds since the Unix epoch, now.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

/// Waits until `done` says so; panics after `max`.
#[track_caller]
pub fn eventually(max: Duration, what: &str, done: impl FnMut() -> bool) {
    assert!(happens(max, done), "not within {max:?}: {what}");
}

/// Waits until `done` says so, for at most `max`; whether it did.
pub fn happens(max: Duration, mut done: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !done() {
        if started.elapsed() >= max {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A request that a sink got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub path: String,
    pub execution: String,
    pub job_name: String,
    pub attempt: u32,
    pub fence: u64,
    pub scheduled_at: String,
    /// The same in milliseconds since the Unix epoch.
    pub scheduled_at_ms: i64,
    /// When its head was read, in milliseconds since the Unix epoch.
    pub arrived_at_ms: i64,
    pub body: Vec<u8>,
}

/// What a sink answers.
#[derive(Copy, Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub delay: Duration,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, delay: Duration::ZERO }
    }

    pub fn after(delay: Duration) -> Self {
        Self { status: 200, delay }
    }
}

/// A target on this host that records the webhooks it gets. Lives as long as the test process, across server starts.
#[derive(Clone)]
pub struct Sink {
    address: SocketAddr,
    state: Arc<Mutex<SinkState>>,
}

#[derive(Default)]
struct SinkState {
    deliveries: Vec<Delivery>,
    /// By path: these in turn, and then the last one for ever.
    replies: HashMap<String, Vec<Reply>>,
}

impl Sink {
    /// Listens on a free port, and answers 200 to everything.
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(SinkState::default()));
        let listener = block_on(async { tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port") });
        let address = listener.local_addr().expect("an address");
        let app = axum::Router::new().fallback(record).with_state(state.clone());
        runtime().spawn(async move { axum::serve(listener, app).await });
        Self { address, state }
    }

    /// The address of a path, such as `/ok`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on, this is answered on `path`.
    pub fn reply(&self, path: &str, reply: Reply) {
        self.replies(path, &[reply]);
    }

    /// From now on, these are answered on `path` in turn; the last one again and again.
    pub fn replies(&self, path: &str, replies: &[Reply]) {
        self.state.lock().unwrap().replies.insert(path.to_owned(), replies.to_vec());
    }

    /// Notes what somebody else has witnessed.
    pub fn note(&self, delivery: Delivery) {
        self.state.lock().unwrap().deliveries.push(delivery);
    }

    /// All requests so far, in order of arrival.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.state.lock().unwrap().deliveries.clone()
    }

    /// Those on one path.
    pub fn on(&self, path: &str) -> Vec<Delivery> {
        self.deliveries().into_iter().filter(|delivery| delivery.path == path).collect()
    }

    pub fn count(&self) -> usize {
        self.state.lock().unwrap().deliveries.len()
    }

    /// Waits for so many requests in all.
    #[track_caller]
    pub fn wait_for(&self, count: usize, max: Duration) {
        eventually(max, &format!("{count} webhooks"), || self.count() >= count);
    }

    /// Forgets the requests so far.
    pub fn clear(&self) {
        self.state.lock().unwrap().deliveries.clear();
    }
}

type Shared = Arc<Mutex<SinkState>>;

async fn record(
    axum::extract::State(state): axum::extract::State<Shared>,
    request: axum::extract::Request,
) -> http::StatusCode {
    let arrived_at_ms = now_ms();
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default().to_vec();
    let scheduled_at = text("x-scheduled-at");
    let instant = scheduled_at.parse::<campanile_model::Timestamp>();
    let path = head.uri.path().to_owned();
    let delivery = Delivery {
        path: path.clone(),
        execution: text("x-execution-id"),
        job_name: text("x-job-name"),
        attempt: text("x-attempt").parse().unwrap_or_default(),
        fence: text("x-fence-token").parse().unwrap_or_default(),
        scheduled_at_ms: instant.map_or(-1, |at| at.millis()),
        scheduled_at,
        arrived_at_ms,
        body,
    };
    let reply = {
        let mut state = state.lock().unwrap();
        state.deliveries.push(delivery);
        match state.replies.get_mut(&path) {
            Some(replies) if replies.len() > 1 => replies.remove(0),
            Some(replies) if replies.len() == 1 => replies[0],
            _ => Reply::status(200),
        }
    };
    tokio::time::sleep(reply.delay).await;
    http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::OK)
}
