//! What became of fires: lists of executions, and of fires that became none.

use super::jobs::page_answer;
use crate::problem::{Refusal, field};
use crate::request::{Answer, Head, Params, job_key, json};
use crate::{App, convert, cursor};
use axum::extract::{Path, State};
use campanile_client::wire::{self, Page, Problem};
use campanile_model::filter::{Filter, Pattern, Test};
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::store::{ExecutionQuery, JobKey};
use campanile_model::{ExecutionId, JobId};
use http::StatusCode;

/// What narrows a list of executions. A list of one job, or of one state, has fewer.
const PARAMS: &[&str] = &[
    "q",
    "job",
    "state",
    "pool",
    "tag",
    "handler",
    "fp",
    "from",
    "to",
    "scheduled_after",
    "scheduled_before",
    "limit",
    "cursor",
];

/// List executions
///
/// Newest first, in pages. All conditions must hold. A page looks at a bounded number of executions: it may be short or
/// empty although there are more, and `has_more` tells.
#[utoipa::path(get, path = "/v1/executions", tag = "Executions", operation_id = "listExecutions",
    params(
        ("q" = Option<String>, Query, description = "A filter, such as `state:dead job:nightly-* late:>5s scheduled:-24h..now`"),
        ("job" = Option<String>, Query, description = "Only of this job: id, or `name:` and a name"),
        ("state" = Option<String>, Query, description = "Only in these states, separated by commas"),
        ("pool" = Option<String>, Query, description = "Only of these pools, separated by commas"),
        ("tag" = Option<String>, Query, description = "Only of jobs with this tag"),
        ("handler" = Option<String>, Query, description = "Only of this handler, or done to this target"),
        ("fp" = Option<String>, Query, description = "Only with this fingerprint, or one that starts so"),
        ("from" = Option<String>, Query, description = "Only due at or after this: RFC 3339, a date, `now`, or `-2h`. `scheduled_after` is the same"),
        ("to" = Option<String>, Query, description = "Only due before this. `scheduled_before` is the same"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Execution>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The filter is wrong; `position` says where", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_executions(State(app): State<App>, head: Head) -> Answer {
    list(&app, &head, None, Vec::new()).await
}

/// List executions of a job
///
/// Newest first, in pages. Those of a deleted job are found by its id.
#[utoipa::path(get, path = "/v1/jobs/{job}/executions", tag = "Executions", operation_id = "listJobExecutions",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("q" = Option<String>, Query, description = "A filter, such as `state:dead late:>5s`"),
        ("state" = Option<String>, Query, description = "Only in these states, separated by commas"),
        ("from" = Option<String>, Query, description = "Only due at or after this: RFC 3339, a date, `now`, or `-2h`. `scheduled_after` is the same"),
        ("to" = Option<String>, Query, description = "Only due before this. `scheduled_before` is the same"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Execution>),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_job_executions(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let job = any_job(&app, &job).await?;
    list(&app, &head, Some(job), Vec::new()).await
}

/// List executions of a job (alias)
///
/// The same as `/v1/jobs/{job}/executions`.
#[utoipa::path(get, path = "/v1/jobs/{job}/runs", tag = "Executions", operation_id = "listJobRuns",
    params(("job" = String, Path, description = "Id, or `name:` and a name")),
    responses((status = 200, description = "A page", body = Page<wire::Execution>)))]
pub(super) async fn list_job_runs(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let job = any_job(&app, &job).await?;
    list(&app, &head, Some(job), Vec::new()).await
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
    let mut skips = app.reads.list_skips(app.tenant(), job, None, limit + 1).await?.items;
    let has_more = skips.len() > limit;
    skips.truncate(limit);
    let page = Page { data: skips.iter().map(convert::skip).collect(), has_more, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

/// A page of executions: of one job or of all, in these states or in those that the query names.
pub(super) async fn list(app: &App, head: &Head, job: Option<JobId>, states: Vec<ExecutionState>) -> Answer {
    let params = head.params(PARAMS)?;
    let asked = head.filter_text();
    let job = match (job, params.get("job")) {
        (Some(_), Some(_)) => return Err(Refusal::bad_request("parameter_duplicate", "the path names the job")),
        (None, Some(text)) => Some(any_job(app, text).await?),
        (job, None) => job,
    };
    let states = match (states.is_empty(), params.get("state")) {
        (true, text) => read_states(text.unwrap_or_default())?,
        (false, None) => states,
        (false, Some(_)) => return Err(Refusal::bad_request("parameter_duplicate", "the path names the state")),
    };
    let list = format!("executions {job:?} {states:?} {asked}");
    let before = match params.get("cursor") {
        Some(text) => {
            let position = cursor::decode(&app.cursor_key, &list, text)?;
            let bytes: Result<[u8; 16], _> = position.try_into();
            let bytes = bytes.map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?;
            Some(ExecutionId::from_bytes(bytes))
        }
        None => None,
    };
    let now = app.engine.now();
    let (from, to) =
        (either(&params, "from", "scheduled_after", now)?, either(&params, "to", "scheduled_before", now)?);
    let (tenant, filter, limit) = (app.tenant(), filter(app, &params)?, params.limit()?);
    let job = match job {
        Some(job) => Some(job),
        None => named_job(app, &filter).await?,
    };
    let query = ExecutionQuery { tenant, job, states, from, to, filter, before, limit };
    let found = app.reads.list_executions(&query).await?;
    let page = Page {
        data: convert::executions(&app.engine, &found.items),
        has_more: found.next.is_some(),
        next_cursor: found.next.map(|id| cursor::encode(&app.cursor_key, &list, id.as_bytes())),
    };
    Ok(page_answer(head, &page))
}

/// The one job that a filter names in full: its history is an index of its own. Deleted jobs have lost their name, so that
/// without a live one all executions are looked through.
async fn named_job(app: &App, filter: &Filter) -> Result<Option<JobId>, Refusal> {
    let names = filter.jobs_exact().unwrap_or_default();
    let [name] = names.as_slice() else { return Ok(None) };
    let found = app.reads.get_jobs(app.tenant(), &[JobKey::Name((*name).to_owned())]).await?;
    Ok(found.into_iter().flatten().next().map(|job| job.id))
}

/// The filter of `q`, and of the parameters that are short for parts of one.
fn filter(app: &App, params: &Params<'_>) -> Result<Filter, Refusal> {
    let mut filter = match Filter::parse(params.get("q").unwrap_or_default(), app.engine.now()) {
        Ok(filter) => filter,
        Err(error) => return Err(Refusal::invalid(vec![field(error.into_field("/q"))])),
    };
    let mut must = |test: Test| filter.terms.push(convert::term(test));
    if let Some(pools) = params.get("pool") {
        must(Test::Pool(pools.split(',').map(|pool| pool.trim().to_owned()).collect()));
    }
    if let Some(tag) = params.get("tag") {
        must(Test::Tag(tag.to_owned()));
    }
    if let Some(handler) = params.get("handler") {
        must(Test::Handler(Pattern::exact(handler)));
    }
    if let Some(text) = params.get("fp") {
        let digits = convert::fingerprint_digits(text);
        let refused = || Refusal::bad_request("parameter_invalid", "`fp` has 1 to 16 hexadecimal digits");
        must(Test::Fingerprint(digits.ok_or_else(refused)?));
    }
    Ok(filter)
}

/// An instant under one of two names.
fn either(
    params: &Params<'_>,
    name: &str,
    other: &str,
    now: campanile_model::Timestamp,
) -> Result<Option<campanile_model::Timestamp>, Refusal> {
    match (params.near(name, now)?, params.instant(other)?) {
        (Some(_), Some(_)) => {
            let detail = format!("`{name}` and `{other}` say the same thing; send one of them");
            Err(Refusal::bad_request("parameter_duplicate", detail))
        }
        (one, two) => Ok(one.or(two)),
    }
}

fn read_states(text: &str) -> Result<Vec<ExecutionState>, Refusal> {
    let mut states = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let meant = ExecutionState::meant_by(word).ok_or_else(|| {
            let all: Vec<_> = ExecutionState::ALL.into_iter().map(ExecutionState::as_str).collect();
            Refusal::bad_request("parameter_invalid", format!("`state` must be of {}", all.join(", ")))
        })?;
        let new: Vec<_> = meant.iter().filter(|state| !states.contains(state)).collect();
        states.extend(new);
    }
    Ok(states)
}

/// A job by its id or name; by id also when it is deleted, since its history stays.
pub(super) async fn any_job(app: &App, text: &str) -> Result<JobId, Refusal> {
    let key = job_key(text)?;
    let found = app.reads.get_jobs(app.tenant(), std::slice::from_ref(&key)).await?.pop().flatten();
    found.map(|job| job.id).ok_or_else(|| super::jobs::no_job(&key))
}
