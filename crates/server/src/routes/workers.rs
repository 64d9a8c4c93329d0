//! The external workers that this node has heard of.

use crate::App;
use crate::convert::pull;
use crate::request::{Answer, Head, NoBody, json};
use axum::extract::{Path, State};
use campanile_client::wire::{self, Page, Problem};
use campanile_engine::workers::{Directive, WorkerStatus};
use campanile_model::Timestamp;
use http::StatusCode;

/// List workers
///
/// Those heard of within the last hour, by id.
#[utoipa::path(get, path = "/v1/workers", tag = "Workers", operation_id = "listWorkers",
    responses((status = 200, description = "The workers", body = Page<wire::WorkerStatus>)))]
pub(super) async fn list_workers(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let now = app.engine.now();
    let data = app.engine.workers().into_iter().map(|worker| shown(worker, now)).collect();
    Ok(json(StatusCode::OK, &Page { data, has_more: false, next_cursor: None }))
}

/// Quiet a worker
///
/// It takes nothing new and goes on with what runs. It is told with its next claim or heartbeat.
#[utoipa::path(post, path = "/v1/workers/{worker}/quiet", tag = "Workers", operation_id = "quietWorker",
    params(("worker" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "The worker", body = wire::WorkerStatus),
        (status = 404, description = "Nobody has heard of it", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn quiet_worker(State(app): State<App>, head: Head, Path(worker): Path<String>, _: NoBody) -> Answer {
    direct(&app, &head, &worker, Directive::Quiet)
}

/// Drain a worker
///
/// It takes nothing new, finishes what runs, and ends. It is told with its next claim or heartbeat.
#[utoipa::path(post, path = "/v1/workers/{worker}/drain", tag = "Workers", operation_id = "drainWorker",
    params(("worker" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "The worker", body = wire::WorkerStatus),
        (status = 404, description = "Nobody has heard of it", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn drain_worker(State(app): State<App>, head: Head, Path(worker): Path<String>, _: NoBody) -> Answer {
    direct(&app, &head, &worker, Directive::Drain)
}

/// Let a worker run
///
/// It takes work again, after it was quieted.
#[utoipa::path(post, path = "/v1/workers/{worker}/run", tag = "Workers", operation_id = "runWorker",
    params(("worker" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "The worker", body = wire::WorkerStatus),
        (status = 404, description = "Nobody has heard of it", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn run_worker(State(app): State<App>, head: Head, Path(worker): Path<String>, _: NoBody) -> Answer {
    direct(&app, &head, &worker, Directive::Run)
}

fn direct(app: &App, head: &Head, worker: &str, directive: Directive) -> Answer {
    head.params(&[])?;
    app.engine.direct(worker, directive)?;
    let now = app.engine.now();
    let told = app.engine.workers().into_iter().find(|known| &*known.id == worker);
    Ok(json(StatusCode::OK, &told.map(|told| shown(told, now)).unwrap_or_default()))
}

fn shown(worker: WorkerStatus, now: Timestamp) -> wire::WorkerStatus {
    let texts = |names: &[std::sync::Arc<str>]| names.iter().map(|name| name.to_string()).collect();
    wire::WorkerStatus {
        id: worker.id.to_string(),
        worker_id: worker.id.to_string(),
        pools: texts(&worker.pools),
        handlers: texts(&worker.handlers),
        present: is_present(&worker, now),
        sdk: worker.sdk,
        capacity: worker.capacity as u64,
        running: worker.running as u64,
        first_seen_at: worker.first_seen_at.to_string(),
        last_seen_at: worker.last_seen_at.to_string(),
        directive: pull::directive(worker.directive),
    }
}

/// Whether a worker would take work of a pool now.
pub(super) fn takes_from(worker: &WorkerStatus, pool: &str, now: Timestamp) -> bool {
    let asks = worker.pools.is_empty() || worker.pools.iter().any(|name| &**name == pool);
    asks && worker.directive == Directive::Run && is_present(worker, now)
}

fn is_present(worker: &WorkerStatus, now: Timestamp) -> bool {
    worker.is_present(now)
}
