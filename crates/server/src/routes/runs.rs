//! Jobs: run now, by hand.

use super::jobs::find;
use crate::problem::Refusal;
use crate::request::{Answer, Head, JobBody, NoBody, job_key, json, located};
use crate::{App, convert};
use axum::extract::{Path, State};
use axum::response::Response;
use campanile_client::wire::{self, ExecuteRequest, FieldProblem, Problem, json};
use campanile_model::execution::Execution;
use http::{HeaderValue, StatusCode};

/// Run a job now
///
/// Whatever its schedule, and whether or not it is paused. With an `Idempotency-Key`, asking again gets the same execution.
#[utoipa::path(post, path = "/v1/jobs/{job}/run", tag = "Jobs", operation_id = "runJob",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show the job that would run"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 202, description = "Accepted", body = wire::Execution,
            headers(("Location" = String, description = "The execution's address"))),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn run_job(State(app): State<App>, head: Head, Path(job): Path<String>, _: NoBody) -> Answer {
    run(&app, &head, &job).await
}

/// Run a job now (alias)
///
/// The same as `/v1/jobs/{job}/run`.
#[utoipa::path(post, path = "/v1/jobs/{job}/trigger", tag = "Jobs", operation_id = "triggerJob",
    params(("job" = String, Path, description = "Id, or `name:` and a name")),
    responses((status = 202, description = "Accepted", body = wire::Execution)))]
pub(super) async fn trigger_job(State(app): State<App>, head: Head, Path(job): Path<String>, _: NoBody) -> Answer {
    run(&app, &head, &job).await
}

/// Run a job now (by id or name in the body)
///
/// The same as `/v1/jobs/{job}/run`.
#[utoipa::path(post, path = "/v1/jobs/execute", tag = "Jobs", operation_id = "executeJob", request_body = ExecuteRequest,
    responses(
        (status = 202, description = "Accepted", body = wire::Execution),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn execute_job(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    let members = json::members(body.text()).unwrap_or_default();
    let mut job = None;
    for (name, value) in &members {
        let text: Option<String> = serde_json::from_str(value).ok();
        let key = match (name.as_str(), text) {
            ("job_id" | "jobId" | "id", Some(id)) => id,
            ("name", Some(name)) => format!("name:{name}"),
            ("job_id" | "jobId" | "id" | "name", None) => {
                return Err(Refusal::invalid(vec![FieldProblem::new(
                    format!("/{name}"),
                    "wrong_type",
                    "expected a string",
                )]));
            }
            _ => {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                let fault = FieldProblem::new("", "field_unknown", format!("there is no field `{shown}`"));
                return Err(Refusal::invalid(vec![fault.hint("`job_id` or `name`")]));
            }
        };
        if job.replace(key).is_some() {
            let message = "send `job_id` or `name`, and only once";
            return Err(Refusal::invalid(vec![FieldProblem::new(format!("/{name}"), "field_duplicate", message)]));
        }
    }
    match job {
        Some(job) => run(&app, &head, &job).await,
        None => Err(Refusal::invalid(vec![FieldProblem::new("", "job_missing", "send `job_id` or `name`")])),
    }
}

async fn run(app: &App, head: &Head, job: &str) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let (key, (_, idempotency_key)) = (job_key(job)?, head.conditions()?);
    if dry_run {
        let job = find(app, &key).await?;
        return Ok(json(StatusCode::OK, &convert::job_preview(&job, app.engine.now())));
    }
    let (execution, was_replayed) = app.engine.run_now(app.tenant(), &key, idempotency_key).await?;
    Ok(accepted_execution(app, &execution, was_replayed))
}

/// An execution that something was accepted about, with its address.
pub(super) fn accepted_execution(app: &App, execution: &Execution, was_replayed: bool) -> Response {
    let response = json(StatusCode::ACCEPTED, &convert::execution(&app.engine, execution));
    let mut response = located(response, format!("/v1/executions/{}", execution.id));
    if was_replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}
