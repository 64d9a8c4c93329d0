//! The HTTP API of Campanile.
//!
//! Handlers parse, call one engine function, and render: there are no rules here. What people send is read by
//! `campanile_client::wire::input`, turned into domain types by [`convert`], and refused by [`problem`], the single map
//! from what went wrong to a status and a stable code. Routes are registered together with their documentation, so that
//! `/openapi.json` cannot drift from them.
//!
//! Reading order: `serve` (connections), `limits` (what every request passes through), `request` (what handlers are
//! given), then the routes. Around them: `etag`, `idempotency`, `cursor`.

pub mod serve;
mod limits;
mod request;
pub mod problem;
pub mod convert;
mod etag;
mod idempotency;
mod cursor;
mod routes;

use aws_lc_rs::hmac;
use campanile_engine::Handle;
use campanile_model::TenantId;
use campanile_model::store::Reads;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

pub use routes::{openapi, router};
pub use serve::serve;

/// Settings of the API.
#[derive(Clone, Debug)]
pub struct Options {
    /// Signs cursors. Belongs to the store, so that cursors outlive a restart and are worthless elsewhere.
    pub cursor_key: [u8; 32],
    /// Whether the API is answered; without it, only how the node is.
    pub api: bool,
    /// Connections at the same time; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long a client gets to send a request's head.
    pub head_timeout_ms: u64,
    /// How long a client gets to send a request's body.
    pub body_timeout_ms: u64,
    /// How long a handler may take before its client is told to come back. What it wrote goes on.
    pub handler_timeout_ms: u64,
    /// Bytes of request bodies in memory at the same time; further requests wait.
    pub body_bytes_max: usize,
    /// How long requests get to end when the server stops.
    pub drain_ms: u64,
    /// Set when the server stops, so that nobody waits for something to happen. Clones share it.
    pub stopping: Stopping,
}

/// Whether a server stops.
#[derive(Clone, Debug)]
pub struct Stopping(Arc<watch::Sender<bool>>);

impl Default for Stopping {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stopping {
    /// It stops.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Returns when it stops.
    pub(crate) async fn begun(&self) {
        // The sender is held by ourselves, so that waiting for it does not fail.
        let _ = self.0.subscribe().wait_for(|stops| *stops).await;
    }
}

impl Options {
    /// The defaults, with this key for cursors.
    pub fn new(cursor_key: [u8; 32]) -> Self {
        Self {
            cursor_key,
            api: true,
            connections_max: 4_096,
            head_timeout_ms: 5_000,
            body_timeout_ms: 10_000,
            handler_timeout_ms: 30_000,
            body_bytes_max: 128 * 1024 * 1024,
            drain_ms: 10_000,
            stopping: Stopping::default(),
        }
    }
}

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    engine: Handle,
    /// The store, for handlers that only read: nothing can be written around the engine.
    reads: Arc<dyn Reads>,
    options: Arc<Options>,
    cursor_key: Arc<hmac::Key>,
    /// One permit per KiB of request bodies in memory.
    body_budget: Arc<Semaphore>,
    /// One permit per request that waits for an execution to end.
    waits: Arc<Semaphore>,
    /// One permit per claim that waits for work.
    polls: Arc<Semaphore>,
}

/// Requests that wait for an execution to end, at most; further ones are answered at once.
const WAITS_MAX: usize = 1_000;

impl App {
    fn new(engine: Handle, options: Options) -> Self {
        Self {
            reads: engine.reads(),
            engine,
            cursor_key: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &options.cursor_key)),
            body_budget: Arc::new(Semaphore::new(options.body_bytes_max.div_ceil(1024))),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
            // A claim that waits may hold a connection; others need some too.
            polls: Arc::new(Semaphore::new(options.connections_max.div_ceil(2))),
            options: Arc::new(options),
        }
    }

    /// Whose jobs a request is about: there is one tenant until there is authentication.
    fn tenant(&self) -> TenantId {
        TenantId::DEFAULT
    }
}
