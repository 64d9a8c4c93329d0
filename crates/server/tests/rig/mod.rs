//! The real router on the real engine and a store in a temporary directory.

#![allow(dead_code, reason = "every test uses a part of it")]

use axum::Router;
use axum::body::Body;
use campanile_engine::metrics::Metrics;
use campanile_engine::{Context, Handle, Service};
use campanile_model::random::SplitMix;
use campanile_model::{Clock, Timestamp};
use campanile_testkit::ManualClock;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tower::ServiceExt;

/// When the manual clock starts: a Monday.
pub const START: &str = "2026-11-16T02:00:00Z";

pub struct Rig {
    pub router: Router,
    pub clock: Option<ManualClock>,
    pub options: campanile_server::Options,
    service: Service,
    _dir: TempDir,
}

/// An answer, read.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The status and the problem's code.
    pub fn refusal(&self) -> (u16, String) {
        let code = serde_json::from_str::<Value>(&self.text)
            .ok()
            .and_then(|body| Some(body.get("code")?.as_str()?.to_owned()));
        (self.status.as_u16(), code.unwrap_or_default())
    }
}

impl Rig {
    /// On a clock that stands still.
    pub async fn manual() -> Self {
        let clock = ManualClock::new(START.parse().unwrap());
        Self::start(Arc::new(clock.clone()), Some(clock)).await
    }

    /// On the machine's clock.
    pub async fn real() -> Self {
        Self::start(Arc::new(SystemClock(tokio::time::Instant::now())), None).await
    }

    async fn start(clock: Arc<dyn Clock>, manual: Option<ManualClock>) -> Self {
        let dir = TempDir::new().unwrap();
        let store = campanile_store::sqlite::SqliteStore::open(&campanile_store::sqlite::Options::new(
            dir.path().join("campanile.db"),
        ));
        let ctx = Context {
            store: Arc::new(store.unwrap()),
            queue: Arc::new(campanile_queue::memory::MemoryQueue::new()),
            coordinator: Arc::new(campanile_cluster::solo::Solo::new()),
            actions: campanile_actions::standard(campanile_actions::Options::dev()),
            clock,
            random: Arc::new(SplitMix::new(7)),
            metrics: Arc::new(Metrics::default()),
            node: "node:test".into(),
        };
        let service = Service::start(ctx, campanile_engine::Options::default()).await.unwrap();
        let options = campanile_server::Options::new([7; 32]);
        let router = campanile_server::router(service.handle(), options.clone());
        Self { router, clock: manual, options, service, _dir: dir }
    }

    pub fn handle(&self) -> Handle {
        self.service.handle()
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(Method::POST, path, &[("content-type", "application/json")], body.to_owned()).await
    }

    /// Creates a job with these further fields, and answers its id.
    pub async fn create(&self, name: &str, fields: &str) -> String {
        let body = format!("{{\"name\":\"{name}\",\"action\":{{\"type\":\"NOOP\"}}{fields}}}");
        let answer = self.post("/v1/jobs", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}

struct SystemClock(tokio::time::Instant);

#[async_trait::async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is a Clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_millis(since_epoch.as_millis() as i64)
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
