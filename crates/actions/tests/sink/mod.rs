//! Targets for webhooks: one that speaks HTTP and remembers, one that speaks bytes.

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use base64::Engine;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub const OTHER_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A request as it arrived.
#[derive(Clone)]
pub struct Seen {
    pub method: String,
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Seen {
    /// A header that came exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} came twice");
        Some(value.to_str().expect("ASCII"))
    }
}

/// How a target answers.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    wait: Wait,
}

#[derive(Copy, Clone, PartialEq)]
enum Wait {
    No,
    Released,
    Ever,
}

impl Answer {
    pub fn ok(body: &str) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into(), wait: Wait::No }
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::ok("") }
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn never() -> Self {
        Self { wait: Wait::Ever, ..Self::ok("") }
    }

    pub fn when_released() -> Self {
        Self { wait: Wait::Released, ..Self::ok("") }
    }
}

/// A target that speaks HTTP.
pub struct Sink {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
    count: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

impl Sink {
    pub async fn start(answer: impl Fn(&Seen) -> Answer + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = Self {
            address: listener.local_addr().unwrap(),
            accepted: Arc::default(),
            seen: Arc::default(),
            count: watch::Sender::new(0),
            released: watch::Sender::new(false),
        };
        let (seen, count, released) = (Arc::clone(&sink.seen), sink.count.clone(), sink.released.clone());
        let app = axum::Router::new().fallback(move |request: Request| {
            let (seen, count, mut released) = (Arc::clone(&seen), count.clone(), released.subscribe());
            let answer = answer.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
                let request =
                    Seen { method: parts.method.to_string(), uri: parts.uri.to_string(), headers: parts.headers, body };
                let answer = answer(&request);
                seen.lock().push(request);
                count.send_modify(|count| *count += 1);
                match answer.wait {
                    Wait::No => {}
                    Wait::Released => drop(released.wait_for(|&released| released).await),
                    Wait::Ever => std::future::pending().await,
                }
                let mut response =
                    (StatusCode::from_u16(answer.status).unwrap(), Body::from(answer.body)).into_response();
                for (name, value) in answer.headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                response
            }
        });
        let counting = Counting { listener, accepted: Arc::clone(&sink.accepted) };
        tokio::spawn(async move { axum::serve(counting, app).await });
        sink
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub async fn wait_for_requests(&self, count: usize) {
        self.count.subscribe().wait_for(|&seen| seen >= count).await.unwrap();
    }

    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

struct Counting {
    listener: TcpListener,
    accepted: Arc<AtomicUsize>,
}

impl axum::serve::Listener for Counting {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        let accepted = axum::serve::Listener::accept(&mut self.listener).await;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        accepted
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection to a target that speaks bytes.
pub struct Stream(TcpStream);

impl Stream {
    /// Sends bytes, and says whether they went out.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Reads until the other side closes.
    pub async fn until_closed(&mut self) {
        let mut buffer = [0; 4_096];
        while matches!(self.0.read(&mut buffer).await, Ok(1..)) {}
    }

    /// Reads the head of a request.
    pub async fn head(&mut self) -> String {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4_096]);
        while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            match self.0.read(&mut buffer).await {
                Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A target that speaks bytes: waits for a request's first bytes, runs `serve`, then closes. Gives its URL.
pub async fn raw<F>(serve: impl Fn(Stream) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // What comes before a request would be no answer to it.
            if stream.peek(&mut [0]).await.is_ok() {
                tokio::spawn(serve(Stream(stream)));
            }
        }
    });
    format!("http://{address}/")
}

/// Checks that a request is signed with these secrets, in this order, over the bytes that arrived.
#[track_caller]
pub fn assert_signed(request: &Seen, secrets: &[&str]) {
    let header = |name| request.header(name).unwrap_or_else(|| panic!("no {name}"));
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let expected: Vec<_> =
        secrets.iter().map(|secret| standard_webhooks_v1(secret, id, timestamp, &request.body)).collect();
    assert_eq!(header("webhook-signature"), expected.join(" "));
}

/// `v1` of Standard Webhooks, written from RFC 2104 and FIPS 180-4's digest alone.
fn standard_webhooks_v1(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let base64 = base64::engine::general_purpose::STANDARD;
    let key = base64.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let sha256 = |parts: &[&[u8]]| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &parts.concat());
        digest.as_ref().to_vec()
    };
    assert!(key.len() <= 64);
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ with).collect() };
    let message = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
    let inner = sha256(&[&pad(0x36), &message]);
    format!("v1,{}", base64.encode(sha256(&[&pad(0x5c), &inner])))
}
