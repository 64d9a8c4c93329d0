//! A scheduler of a few lines: hands out what a test gives it, records all that a worker says, and answers as it is told.

#![allow(dead_code, reason = "each test uses its part of it")]

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use campanile_client::Client;
use campanile_client::wire::{
    Beat, BeatResult, BeatStatus, ClaimRequest, ClaimResponse, ClaimedExecution, CompleteBatchRequest,
    CompleteBatchResponse, CompleteResponse, CompleteResult, Completion, Directive, HeartbeatRequest,
    HeartbeatResponse, ReleaseRequest,
};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long anything may take.
const SOON: Duration = Duration::from_secs(20);

/// What was said, and what to answer.
#[derive(Default)]
pub struct Book {
    /// What waits to be claimed.
    pub queue: VecDeque<ClaimedExecution>,
    pub claims: Vec<ClaimRequest>,
    /// Polls that wait now.
    pub polling: usize,
    pub beats: Vec<Beat>,
    pub completions: Vec<Completion>,
    /// How many came in each request.
    pub batches: Vec<usize>,
    pub released: Vec<(String, u64)>,
    /// What heartbeats of these executions are answered; `EXTENDED` for others.
    pub beat_status: HashMap<String, BeatStatus>,
    /// What completions of these executions are answered; 200 for others.
    pub complete_status: HashMap<String, u16>,
    /// So many requests are answered 503 before any is heard.
    pub unavailable: u32,
    /// Completions of more than one are refused for good.
    pub refuse_batches: bool,
    /// What claims are refused with.
    pub refuse_claims: Option<u16>,
    pub directive: Directive,
}

impl Book {
    pub fn completion(&self, id: &str) -> Option<&Completion> {
        self.completions.iter().find(|completion| completion.id == id)
    }
}

/// The scheduler. Lives as long as the test's runtime.
#[derive(Clone)]
pub struct Fake {
    book: Arc<Mutex<Book>>,
    /// Changes with the book.
    pages: Arc<watch::Sender<u64>>,
}

impl Fake {
    /// One that listens on a free port, and a client of it.
    pub async fn start() -> (Self, Client) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        (Self::listen(listener), client)
    }

    /// One that listens there.
    pub fn listen(listener: TcpListener) -> Self {
        let fake = Self { book: Arc::default(), pages: Arc::new(watch::Sender::new(0)) };
        let routes = Router::new()
            .route("/internal/v1/executions/claim", post(claim))
            .route("/internal/v1/executions/heartbeat", post(heartbeat))
            .route("/internal/v1/executions/complete", post(complete))
            .route("/internal/v1/executions/{id}/release", post(release))
            .with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        fake
    }

    /// Reads or changes the book.
    pub fn with<T>(&self, act: impl FnOnce(&mut Book) -> T) -> T {
        let done = act(&mut self.book.lock().unwrap());
        self.pages.send_modify(|page| *page += 1);
        done
    }

    /// Waits until the book says so.
    #[track_caller]
    pub fn until(&self, what: &'static str, holds: impl Fn(&Book) -> bool) -> impl Future<Output = ()> {
        let (book, mut pages) = (self.book.clone(), self.pages.subscribe());
        async move {
            let waiting = async {
                while !holds(&book.lock().unwrap()) {
                    pages.changed().await.unwrap();
                }
            };
            tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
        }
    }
}

/// An execution with short times.
pub fn execution(id: &str, handler: &str, payload: Value) -> ClaimedExecution {
    serde_json::from_value(json!({
        "execution_id": id, "job_id": "job_1", "job_name": "name", "job_version": 1, "handler": handler, "pool": "p",
        "payload": payload, "attempt": 2, "max_attempts": 3, "scheduled_at": "2026-01-01T00:00:00Z",
        "deadline_at": "2026-01-01T00:00:30Z", "fence_token": 7, "lease_ms": 300, "heartbeat_ms": 20,
        "timeout_ms": 60_000,
    }))
    .unwrap()
}

async fn claim(State(fake): State<Fake>, Json(request): Json<ClaimRequest>) -> Response {
    let refused = fake.with(|book| {
        book.claims.push(request.clone());
        book.refuse_claims.or_else(|| unavailable(book))
    });
    if let Some(status) = refused {
        return problem(status);
    }
    let mut pages = fake.pages.subscribe();
    fake.with(|book| book.polling += 1);
    let polling = Polling(fake.clone());
    let waiting = async {
        loop {
            let (executions, directive): (Vec<_>, _) = {
                let mut book = fake.book.lock().unwrap();
                let count = book.queue.len().min(request.capacity as usize);
                (book.queue.drain(..count).collect(), book.directive)
            };
            if !executions.is_empty() || directive != Directive::Run {
                return ClaimResponse { executions, directive };
            }
            pages.changed().await.unwrap();
        }
    };
    let answer = tokio::time::timeout(Duration::from_millis(request.wait_ms), waiting).await;
    drop(polling);
    Json(answer.unwrap_or_default()).into_response()
}

struct Polling(Fake);

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.with(|book| book.polling -= 1);
    }
}

async fn heartbeat(State(fake): State<Fake>, Json(request): Json<HeartbeatRequest>) -> Response {
    fake.with(|book| {
        if let Some(status) = unavailable(book) {
            return problem(status);
        }
        let result = |beat: &Beat| {
            let status = book.beat_status.get(&beat.id).copied().unwrap_or(BeatStatus::Extended);
            BeatResult { id: beat.id.clone(), status, lease_ms: 300, reason: None }
        };
        let results = request.executions.iter().map(result).collect();
        book.beats.extend(request.executions);
        Json(HeartbeatResponse { results, directive: book.directive }).into_response()
    })
}

async fn complete(State(fake): State<Fake>, Json(request): Json<CompleteBatchRequest>) -> Response {
    fake.with(|book| {
        if let Some(status) = unavailable(book) {
            return problem(status);
        }
        if book.refuse_batches && request.completions.len() > 1 {
            return problem(413);
        }
        let mut results = Vec::new();
        book.batches.push(request.completions.len());
        for completion in request.completions {
            let status = book.complete_status.get(&completion.id).copied().unwrap_or(200);
            let id = completion.id.clone();
            results.push(CompleteResult { id, status, state: None, next_attempt_at: None, error: None });
            book.completions.push(completion);
        }
        Json(CompleteBatchResponse { results }).into_response()
    })
}

async fn release(State(fake): State<Fake>, Path(id): Path<String>, Json(request): Json<ReleaseRequest>) -> Response {
    fake.with(|book| book.released.push((id.clone(), request.fence_token)));
    Json(CompleteResponse { execution_id: id, state: "PENDING".into(), next_attempt_at: None }).into_response()
}

fn unavailable(book: &mut Book) -> Option<u16> {
    let fails = book.unavailable > 0;
    book.unavailable -= u32::from(fails);
    fails.then_some(503)
}

fn problem(status: u16) -> Response {
    let body = json!({ "title": "no", "status": status, "code": "no", "retryable": status >= 500 });
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}
