//! The routes, each registered together with its documentation.

mod jobs;
mod jobs_change;
mod executions;
mod schedules;
mod health;
mod docs;

use crate::{App, Options, limits};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use campanile_engine::Handle;
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
        .routes(routes!(jobs_change::run_job))
        .routes(routes!(jobs_change::trigger_job))
        .routes(routes!(jobs_change::execute_job))
        .routes(routes!(executions::list_job_executions))
        .routes(routes!(executions::list_job_runs))
        .routes(routes!(executions::list_job_skips))
        .routes(routes!(executions::list_executions))
        .routes(routes!(executions::get_execution))
        .routes(routes!(executions::list_attempts))
        .routes(routes!(executions::cancel_execution))
        .routes(routes!(schedules::preview_schedule))
        .routes(routes!(schedules::explain_schedule))
        .routes(routes!(health::status))
}

fn server() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(docs::openapi_json))
}

/// The OpenAPI document of the routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().merge(server()).into_openapi()
}

/// All routes on this engine.
pub fn router(engine: Handle, options: Options) -> Router {
    let app = App::new(engine, options);
    let (api, _) = api().split_for_parts();
    let (server, _) = server().split_for_parts();
    Router::new()
        .merge(api.clone())
        // The exact alias that existing clients use.
        .nest("/api", api)
        .merge(server)
        .merge(docs::pages(openapi()))
        .layer(from_fn_with_state(app.clone(), limits::guard))
        .layer(from_fn(limits::finish))
        .with_state(app)
}
