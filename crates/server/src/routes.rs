//! The routes, each registered together with its documentation.

mod jobs;
mod jobs_change;
mod versions;
mod runs;
mod fires;
mod history;
mod executions;
mod pull;
mod dead;
mod operations;
mod pools;
mod targets;
mod workers;
mod endpoints;
mod deliveries;
mod stats;
mod schedules;
mod cluster;
mod health;
mod docs;

use crate::problem::Refusal;
use crate::{App, Options, limits};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use campanile_engine::Handle;
use http::{StatusCode, Uri};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The document before its paths and schemas.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Campanile",
        description = "A distributed job scheduler: cron, one-off and delayed jobs, fired on time, each with a recorded outcome.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "Jobs", description = "Stored definitions: a schedule, an action, and policies."),
        (name = "Executions", description = "Fires of jobs, their attempts, and what came back."),
        (name = "Dead letters", description = "Executions whose attempts are used up: groups, replay, discard."),
        (name = "Operations", description = "Replays and backfills, which take a while."),
        (name = "Pools", description = "Capacity that jobs name: limits, depth, pause."),
        (name = "Targets", description = "Whom actions are done to: limits, and whether they keep failing."),
        (name = "Workers", description = "The external workers that were heard of."),
        (name = "Worker protocol", description = "How workers take, keep, end and give back work."),
        (name = "Notifications", description = "Webhook endpoints, and what was sent there."),
        (name = "Stats", description = "What happened, and how many executions there are."),
        (name = "Schedules", description = "What a schedule means and when it fires, without a job."),
        (name = "Server", description = "How the server is."),
    )
)]
struct Document;

fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(jobs::list_jobs, jobs::create_job))
        .routes(routes!(jobs::create_jobs))
        .routes(routes!(jobs::get_job, jobs_change::replace_job, jobs_change::patch_job, jobs_change::delete_job))
        .routes(routes!(jobs_change::pause_job))
        .routes(routes!(jobs_change::resume_job))
        .routes(routes!(versions::list_versions))
        .routes(routes!(versions::get_version))
        .routes(routes!(versions::revert_job))
        .routes(routes!(runs::run_job))
        .routes(routes!(runs::trigger_job))
        .routes(routes!(runs::execute_job))
        .routes(routes!(fires::why))
        .routes(routes!(fires::cancel_fire))
        .routes(routes!(fires::backfill_job))
        .routes(routes!(history::list_job_executions))
        .routes(routes!(history::list_job_runs))
        .routes(routes!(history::list_job_skips))
        .routes(routes!(history::list_executions))
        .routes(routes!(executions::get_execution))
        .routes(routes!(executions::list_attempts))
        .routes(routes!(executions::list_logs))
        .routes(routes!(executions::cancel_execution))
        .routes(routes!(executions::replay_execution))
        .routes(routes!(dead::list_dead))
        .routes(routes!(dead::list_dead_groups))
        .routes(routes!(dead::replay_dead))
        .routes(routes!(dead::discard_dead))
        .routes(routes!(operations::list_operations))
        .routes(routes!(operations::get_operation))
        .routes(routes!(operations::cancel_operation))
        .routes(routes!(pools::list_pools))
        .routes(routes!(pools::get_pool, pools::put_pool, pools::delete_pool))
        .routes(routes!(pools::pause_pool))
        .routes(routes!(pools::resume_pool))
        .routes(routes!(targets::list_targets))
        .routes(routes!(targets::put_target, targets::delete_target))
        .routes(routes!(workers::list_workers))
        .routes(routes!(workers::quiet_worker))
        .routes(routes!(workers::drain_worker))
        .routes(routes!(workers::run_worker))
        .routes(routes!(endpoints::list_endpoints, endpoints::create_endpoint))
        .routes(routes!(endpoints::get_endpoint, endpoints::replace_endpoint, endpoints::delete_endpoint))
        .routes(routes!(endpoints::pause_endpoint))
        .routes(routes!(endpoints::resume_endpoint))
        .routes(routes!(deliveries::list_deliveries))
        .routes(routes!(deliveries::replay_delivery))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::counts))
        .routes(routes!(schedules::preview_schedule))
        .routes(routes!(schedules::explain_schedule))
        .routes(routes!(health::status))
        .routes(routes!(cluster::cluster))
}

fn worker_protocol() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(pull::claim))
        .routes(routes!(pull::heartbeat))
        .routes(routes!(pull::complete_batch))
        .routes(routes!(pull::complete))
        .routes(routes!(pull::release))
}

fn server() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(docs::openapi_json))
}

/// The OpenAPI document of the routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().merge(worker_protocol()).merge(server()).into_openapi()
}

/// All routes on this engine; only those that tell how the node is, where it does not answer the API.
pub fn router(engine: Handle, options: Options) -> Router {
    let with_api = options.api;
    let app = App::new(engine, options);
    if !with_api {
        let (server, _) = server().routes(routes!(health::status)).routes(routes!(cluster::cluster)).split_for_parts();
        return finished(server.fallback(elsewhere), app);
    }
    let (api, _) = api().split_for_parts();
    let (worker_protocol, _) = worker_protocol().split_for_parts();
    let (server, _) = server().split_for_parts();
    let routes = Router::new()
        .merge(api.clone())
        // The exact alias that existing clients use.
        .nest("/api", api)
        .merge(worker_protocol)
        .merge(server)
        .merge(docs::pages(openapi()));
    finished(routes, app)
}

/// What a node without the API says to whoever asks for it: another node has it, so the same request may well be answered
/// there.
async fn elsewhere(uri: Uri) -> Response {
    if !["/v1/", "/api/", "/internal/"].iter().any(|part| uri.path().starts_with(part)) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let detail = "this node does not have the role `api`; ask one that has it";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no_api_role", detail).into_response()
}

/// Routes behind what guards all of them.
fn finished(routes: Router<App>, app: App) -> Router {
    let guarded = routes.layer(from_fn_with_state(app.clone(), limits::guard));
    guarded.layer(from_fn(limits::finish)).with_state(app)
}
