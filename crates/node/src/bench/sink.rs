//! A target for webhooks, in a process of its own: HTTP/1.1 with kept connections, no TLS, an answer of two bytes.
//!
//! It is as small as it can be, because it shares the cores with what is measured. It notes which execution called when;
//! `GET /report` answers with that and forgets it. It ends with its parent: when its standard input is closed.

use super::lab::{self, Start, text};
use super::machine;
use parking_lot::Mutex;
use std::fmt::Write;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// Headers of a request that are read.
const HEADERS_MAX: usize = 64;
/// A request may have this many bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The sink as its parent holds it.
pub struct Sink {
    _child: Child,
    address: String,
}

/// What the sink saw since the last report.
pub struct Seen {
    pub starts: Vec<Start>,
    /// Connections that were opened.
    pub connections: usize,
    /// Processor time of the sink.
    pub cpu_ms: u64,
}

impl Sink {
    /// Starts this binary again as the sink. It waits `delay_ms` before each answer.
    pub async fn start(delay_ms: u64) -> Result<Self, String> {
        let binary = std::env::current_exe().map_err(text)?;
        let mut child = Command::new(binary)
            .args(["bench", "sink", "--delay-ms", &delay_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("cannot start the sink: {e}"))?;
        let out = child.stdout.take().ok_or("the sink has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).await.map_err(text)?;
        let address = line.trim().strip_prefix("address=").ok_or("the sink did not say where it listens")?;
        Ok(Self { _child: child, address: address.to_owned() })
    }

    /// Where webhooks go.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What it saw since the last report.
    pub async fn report(&self) -> Result<Seen, String> {
        let mut stream = TcpStream::connect(&self.address).await.map_err(text)?;
        stream.write_all(b"GET /report HTTP/1.1\r\nconnection: close\r\n\r\n").await.map_err(text)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(text)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("the sink's report is cut off")?;
        let mut lines = body.lines();
        let mut number = || lines.next().and_then(|line| line.parse().ok()).ok_or("the sink's report cannot be read");
        let (connections, cpu_ms): (u64, u64) = (number()?, number()?);
        let starts: Option<Vec<Start>> = lines.map(start).collect();
        // One of them is this one.
        let connections = connections.saturating_sub(1) as usize;
        Ok(Seen { starts: starts.ok_or("the sink saw a request that is no webhook")?, connections, cpu_ms })
    }
}

fn start(line: &str) -> Option<Start> {
    let mut words = line.split(' ');
    Some(Start {
        execution: words.next()?.parse().ok()?,
        fire_at: words.next()?.parse().ok()?,
        at: campanile_model::Timestamp::from_millis(words.next()?.parse().ok()?),
    })
}

/// What the process knows.
#[derive(Default)]
struct State {
    /// A line per webhook.
    seen: Mutex<String>,
    connections: AtomicUsize,
    cpu_from_ms: Mutex<u64>,
    delay: Duration,
}

/// The process: serves on one thread, which costs the others least, until its standard input is closed.
pub async fn serve(delay_ms: u64) -> Result<(), String> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
        runtime.block_on(listen(State { delay: Duration::from_millis(delay_ms), ..State::default() }))
    });
    let closed = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]).map(|_| ()));
    closed.await.map_err(text)?.map_err(text)
}

async fn listen(state: State) -> Result<(), String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(text)?;
    println!("address={}", listener.local_addr().map_err(text)?);
    let state = Arc::new(state);
    loop {
        let (stream, _) = listener.accept().await.map_err(text)?;
        state.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connection(stream, state.clone()));
    }
}

/// Answers requests until the peer hangs up, or sends what is none.
async fn connection(mut stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4 << 10);
    loop {
        while let Some((length, is_report)) = request(&buffer, &state) {
            buffer.drain(..length);
            if is_report {
                let _ = stream.write_all(report(&state).as_bytes()).await;
                return;
            }
            if !state.delay.is_zero() {
                tokio::time::sleep(state.delay).await;
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.is_err() {
                return;
            }
        }
        if buffer.len() > REQUEST_BYTES_MAX || !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// The first request in the buffer, if it is whole: how long it is, and whether it asks for the report.
fn request(buffer: &[u8], state: &State) -> Option<(usize, bool)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(buffer).ok()? else { return None };
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let length = head + header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0usize);
    if buffer.len() < length {
        return None;
    }
    let (execution, fire_at) = (header("x-execution-id"), header("x-scheduled-at"));
    if let (Some(execution), Some(fire_at)) = (execution, fire_at) {
        let _ = writeln!(state.seen.lock(), "{execution} {fire_at} {}", lab::now().millis());
    }
    Some((length, request.path == Some("/report")))
}

fn report(state: &State) -> String {
    let seen = std::mem::take(&mut *state.seen.lock());
    let connections = state.connections.swap(0, Ordering::Relaxed);
    let cpu_ms = machine::cpu_ms();
    let since_ms = std::mem::replace(&mut *state.cpu_from_ms.lock(), cpu_ms);
    format!("HTTP/1.1 200 OK\r\n\r\n{connections}\n{}\n{seen}", cpu_ms - since_ms)
}
