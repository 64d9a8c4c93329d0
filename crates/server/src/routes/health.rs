//! How the server is.

use crate::App;
use crate::problem::Refusal;
use crate::request::{Answer, Head, json};
use axum::extract::State;
use campanile_client::wire::{Health, Lateness, Problem, Status, StoreStatus};
use http::StatusCode;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether the process answers
#[utoipa::path(get, path = "/healthz", tag = "Server", operation_id = "healthz",
    responses((status = 200, description = "It does", body = Health)))]
pub(super) async fn healthz(head: Head) -> Answer {
    head.params(&[])?;
    Ok(json(StatusCode::OK, &Health { status: "OK".into(), version: VERSION.into() }))
}

/// Whether the server takes work
///
/// Refused until the engine has loaded what is due and owns its shards.
#[utoipa::path(get, path = "/readyz", tag = "Server", operation_id = "readyz", responses(
    (status = 200, description = "It does", body = Health),
    (status = 503, description = "Not yet, or not any more", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    if !app.engine.is_ready() {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "the engine does not fire yet"));
    }
    Ok(json(StatusCode::OK, &Health { status: "OK".into(), version: VERSION.into() }))
}

/// Facts for operators
#[utoipa::path(get, path = "/v1/status", tag = "Server", operation_id = "getStatus",
    responses((status = 200, description = "The facts", body = Status)))]
pub(super) async fn status(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let facts = app.engine.status().await?;
    let store = StoreStatus {
        kind: facts.store.kind,
        location: facts.store.location,
        schema: facts.store.schema,
        bytes: facts.store.bytes,
        jobs: facts.store.jobs,
        zone_database: facts.store_zone_database,
    };
    let status = Status {
        version: VERSION.into(),
        node: facts.node,
        now: facts.now.to_string(),
        uptime_ms: facts.uptime_ms,
        ready: facts.ready,
        zone_database: facts.zone_database,
        store,
        queue_depth: facts.queue.waiting as u64,
        queue_taken: facts.queue.taken as u64,
        wheel_size: facts.planned_jobs,
        waiting: facts.waiting,
        running: facts.running,
        workers: facts.workers,
        cursors_dirty: facts.cursors_dirty,
        lateness: Lateness {
            p50_ms: facts.lateness_p50_ms,
            p99_ms: facts.lateness_p99_ms,
            max_ms: facts.lateness_max_ms,
        },
        counters: facts.counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    };
    Ok(json(StatusCode::OK, &status))
}
