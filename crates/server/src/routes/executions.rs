//! Executions, their attempts, and fires that became none.

use super::jobs::page_answer;
use crate::limits::WAIT_MAX;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, execution_id, job_key, json};
use crate::{App, convert, cursor};
use axum::extract::{Path, State};
use campanile_client::wire::{self, Page, Problem};
use campanile_model::execution::Execution;
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::store::{ExecutionQuery, JobKey};
use campanile_model::{ExecutionId, JobId};
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often an execution that is waited for is looked at: at first, and at last.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// List executions
///
/// Newest first, in pages.
#[utoipa::path(get, path = "/v1/executions", tag = "Executions", operation_id = "listExecutions",
    params(
        ("job" = Option<String>, Query, description = "Only of this job: id, or `name:` and a name"),
        ("state" = Option<String>, Query, description = "Only in these states, separated by commas"),
        ("scheduled_after" = Option<String>, Query, description = "Only due at or after this instant"),
        ("scheduled_before" = Option<String>, Query, description = "Only due before this instant"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Execution>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_executions(State(app): State<App>, head: Head) -> Answer {
    let params = head.params(&["job", "state", "scheduled_after", "scheduled_before", "limit", "cursor"])?;
    let job = match params.get("job") {
        Some(text) => Some(any_job(&app, text).await?),
        None => None,
    };
    list(&app, &head, job).await
}

/// List executions of a job
///
/// Newest first, in pages. Those of a deleted job are found by its id.
#[utoipa::path(get, path = "/v1/jobs/{job}/executions", tag = "Executions", operation_id = "listJobExecutions",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("state" = Option<String>, Query, description = "Only in these states, separated by commas"),
        ("scheduled_after" = Option<String>, Query, description = "Only due at or after this instant"),
        ("scheduled_before" = Option<String>, Query, description = "Only due before this instant"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Execution>),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_job_executions(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let job = any_job(&app, &job).await?;
    list(&app, &head, Some(job)).await
}

/// List executions of a job (alias)
///
/// The same as `/v1/jobs/{job}/executions`.
#[utoipa::path(get, path = "/v1/jobs/{job}/runs", tag = "Executions", operation_id = "listJobRuns",
    params(("job" = String, Path, description = "Id, or `name:` and a name")),
    responses((status = 200, description = "A page", body = Page<wire::Execution>)))]
pub(super) async fn list_job_runs(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let job = any_job(&app, &job).await?;
    list(&app, &head, Some(job)).await
}

/// List skips of a job
///
/// Fires that did not become executions, with the reason, newest first. One skip stands for all fires in its range that
/// have no execution.
#[utoipa::path(get, path = "/v1/jobs/{job}/skips", tag = "Executions", operation_id = "listJobSkips",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said")),
    responses(
        (status = 200, description = "The newest skips", body = Page<wire::Skip>),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_job_skips(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let limit = head.params(&["limit"])?.limit()?;
    let job = any_job(&app, &job).await?;
    let mut skips = app.engine.store().list_skips(app.tenant(), job, limit + 1).await?;
    let has_more = skips.len() > limit;
    skips.truncate(limit);
    let page = Page { data: skips.iter().map(convert::skip).collect(), has_more, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

/// Get an execution
///
/// With `wait`, the answer comes when it is over, or after that time as it is then.
#[utoipa::path(get, path = "/v1/executions/{execution}", tag = "Executions", operation_id = "getExecution",
    params(
        ("execution" = String, Path, description = "Id"),
        ("wait" = Option<String>, Query, description = "Wait until it is over, at most this long, such as `30s`; at most a minute")),
    responses(
        (status = 200, description = "The execution", body = wire::Execution),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_execution(State(app): State<App>, head: Head, Path(execution): Path<String>) -> Answer {
    let wait = head.params(&["wait"])?.duration("wait", WAIT_MAX)?;
    let id = execution_id(&execution)?;
    let found = match wait {
        Some(wait) => wait_for(&app, id, wait).await?,
        None => find(&app, id).await?,
    };
    Ok(json(StatusCode::OK, &convert::execution(&found)))
}

/// List attempts of an execution
///
/// First one first, with what the target answered.
#[utoipa::path(get, path = "/v1/executions/{execution}/attempts", tag = "Executions", operation_id = "listAttempts",
    params(("execution" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "All attempts", body = Page<wire::Attempt>),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_attempts(State(app): State<App>, head: Head, Path(execution): Path<String>) -> Answer {
    head.params(&[])?;
    let id = execution_id(&execution)?;
    find(&app, id).await?;
    let attempts = app.engine.store().list_attempts(app.tenant(), id).await?;
    let page = Page { data: attempts.iter().map(convert::attempt).collect(), has_more: false, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

/// Cancel an execution
///
/// Acknowledged before it starts, it never starts. A running attempt is stopped where that is possible, and its outcome
/// is not accepted any more.
#[utoipa::path(post, path = "/v1/executions/{execution}/cancel", tag = "Executions", operation_id = "cancelExecution",
    params(
        ("execution" = String, Path, description = "Id"),
        ("dry_run" = Option<bool>, Query, description = "Only check")),
    responses(
        (status = 202, description = "Cancelled", body = wire::Execution),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over already; `state` says how", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel_execution(
    State(app): State<App>,
    head: Head,
    Path(execution): Path<String>,
    _: NoBody,
) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let id = execution_id(&execution)?;
    if dry_run {
        let found = find(&app, id).await?;
        return match found.state.is_final() {
            true => Err(over(&found)),
            false => Ok(json(StatusCode::OK, &convert::execution(&found))),
        };
    }
    let (_, idempotency_key) = head.conditions()?;
    match app.engine.cancel_once(app.tenant(), id, idempotency_key).await {
        Ok((cancelled, was_replayed)) => {
            let mut response = json(StatusCode::ACCEPTED, &convert::execution(&cancelled));
            if was_replayed {
                response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
            }
            Ok(response)
        }
        Err(error) if error.code() == "execution_final" => Err(over(&find(&app, id).await?)),
        Err(error) => Err(error.into()),
    }
}

fn over(execution: &Execution) -> Refusal {
    let state = execution.state.as_str();
    Refusal::new(StatusCode::CONFLICT, "execution_final", format!("{} is {state} already", execution.id))
        .with_state(state)
}

async fn list(app: &App, head: &Head, job: Option<JobId>) -> Answer {
    let params = head.params(&["job", "state", "scheduled_after", "scheduled_before", "limit", "cursor"])?;
    let states = states(params.get("state").unwrap_or_default())?;
    let (from, to) = (params.instant("scheduled_after")?, params.instant("scheduled_before")?);
    let list = format!("executions {job:?} {states:?} {from:?} {to:?}");
    let before = match params.get("cursor") {
        Some(text) => {
            let position = cursor::decode(&app.cursor_key, &list, text)?;
            let bytes: Result<[u8; 16], _> = position.try_into();
            let bytes = bytes.map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?;
            Some(ExecutionId::from_bytes(bytes))
        }
        None => None,
    };
    let query = ExecutionQuery { tenant: app.tenant(), job, states, from, to, before, limit: params.limit()? };
    let found = app.engine.store().list_executions(&query).await?;
    let last = found.items.last().filter(|_| found.has_more).map(|execution| execution.id);
    let page = Page {
        data: found.items.iter().map(convert::execution).collect(),
        has_more: found.has_more,
        next_cursor: last.map(|id| cursor::encode(&app.cursor_key, &list, id.as_bytes())),
    };
    Ok(page_answer(head, &page))
}

fn states(text: &str) -> Result<Vec<ExecutionState>, Refusal> {
    let mut states = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let state = ExecutionState::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(word));
        let state = state.ok_or_else(|| {
            let all: Vec<_> = ExecutionState::ALL.into_iter().map(ExecutionState::as_str).collect();
            Refusal::bad_request("parameter_invalid", format!("`state` must be of {}", all.join(", ")))
        })?;
        if !states.contains(&state) {
            states.push(state);
        }
    }
    Ok(states)
}

/// A job by its id or name; by id also when it is deleted, since its history stays.
async fn any_job(app: &App, text: &str) -> Result<JobId, Refusal> {
    let key = job_key(text)?;
    let found = app.engine.store().get_jobs(app.tenant(), std::slice::from_ref(&key)).await?.pop().flatten();
    match (found, key) {
        (Some(job), _) => Ok(job.id),
        (None, key @ (JobKey::Id(_) | JobKey::Name(_))) => Err(super::jobs::no_job(&key)),
    }
}

async fn find(app: &App, id: ExecutionId) -> Result<Execution, Refusal> {
    Ok(app.engine.execution(app.tenant(), id).await?)
}

/// Looks at an execution until it is over or the time is up, less and less often.
async fn wait_for(app: &App, id: ExecutionId, wait: Duration) -> Result<Execution, Refusal> {
    // Too many wait already: this one is answered at once, which every client of a long poll must expect.
    let Ok(_permit) = app.waits.try_acquire() else { return find(app, id).await };
    let deadline = Instant::now() + wait;
    let mut pause = LOOK_EVERY.0;
    loop {
        let found = find(app, id).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        if found.state.is_final() || left.is_zero() {
            return Ok(found);
        }
        sleep(pause.min(left)).await;
        pause = (pause * 3 / 2).min(LOOK_EVERY.1);
    }
}
