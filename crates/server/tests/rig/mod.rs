//! The real router on the real engine and a store in a temporary directory.

#![allow(dead_code, reason = "every test uses a part of it")]

use axum::Router;
use axum::body::Body;
use campanile_engine::metrics::Metrics;
use campanile_engine::{Handle, Injected, Service};
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
        let injected = Injected {
            store: Arc::new(store.unwrap().with_clock(clock.clone())),
            queue: Arc::new(campanile_queue::memory::MemoryQueue::new()),
            coordinator: Arc::new(campanile_cluster::solo::Solo::new()),
            actions: campanile_actions::standard(campanile_actions::Options::dev()),
            clock,
            random: Arc::new(SplitMix::new(7)),
            sender: Arc::new(campanile_actions::EventSender::new(campanile_actions::Options::dev())),
            metrics: Arc::new(Metrics::default()),
            node: "node:test".into(),
        };
        let service = Service::start(injected, campanile_engine::Options::default()).await.unwrap();
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

    pub async fn put(&self, path: &str, body: &str) -> Answer {
        self.ask(Method::PUT, path, &[("content-type", "application/json")], body.to_owned()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], Body::empty()).await
    }

    /// On the machine's clock, and firing.
    pub async fn ready() -> Self {
        let rig = Self::real().await;
        rig.until("/readyz", |answer| answer.status == 200).await;
        rig
    }

    /// Reads until it is so.
    pub async fn until(&self, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..400 {
            let answer = self.get(path).await;
            if is_so(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{path} never became so: {}", self.get(path).await.text);
    }

    /// Creates a job for a worker with this handler in the pool `p`, and answers its id.
    pub async fn create_for_worker(&self, name: &str, handler: &str, fields: &str) -> String {
        let target = format!(r#"{{"handler":"{handler}","pool":"p"}}"#);
        let answer = self.post("/v1/jobs", &format!(r#"{{"name":"{name}","target":{target}{fields}}}"#)).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Runs a job by its name, and answers the id of the execution.
    pub async fn run(&self, name: &str) -> String {
        let answer = self.post(&format!("/v1/jobs/name:{name}/run"), "").await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Claims up to `capacity` as the worker `w`, waiting a few seconds for the first.
    pub async fn claim(&self, capacity: usize) -> Vec<Value> {
        let body = format!(r#"{{"worker_id":"w","capacity":{capacity},"pools":["p"],"wait_ms":5000}}"#);
        let answer = self.post("/internal/v1/executions/claim", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["executions"].as_array().unwrap().clone()
    }

    /// Runs a job of a worker, and lets it die of this error; answers the id of the execution.
    pub async fn kill(&self, name: &str, kind: &str, message: &str) -> String {
        let id = self.run(name).await;
        let claimed = self.claim(1).await.remove(0);
        assert_eq!(claimed["execution_id"], Value::from(id.as_str()));
        let body = serde_json::json!({"status": "FAILED", "fence_token": claimed["fence_token"],
            "error": {"type": kind, "message": message, "retryable": false}});
        let answer = self.post(&format!("/internal/v1/executions/{id}/complete"), &body.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["state"]), (200, &Value::from("DEAD")), "{}", answer.text);
        id
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
