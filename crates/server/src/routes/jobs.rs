//! Jobs: create one or many, read one, list them.

use crate::idempotency::{self, fingerprint};
use crate::problem::{Refusal, field};
use crate::request::{Answer, BatchBody, Head, JobBody, job_key, json, json_text};
use crate::{App, convert, cursor, etag};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use campanile_client::wire::input::{Faults, Fields, JobInput};
use campanile_client::wire::{self, Batch, BatchItem, BatchRequest, FieldProblem, JobSpec, Page, Problem, json};
use campanile_engine::accept::{Create, Draft};
use campanile_engine::jobs::Accepted;
use campanile_model::job::{Job, JobState};
use campanile_model::store::{self, CallerKey, JobKey, JobQuery, Keyed};
use campanile_model::{Error, Kind, limits};
use http::{HeaderName, HeaderValue, StatusCode, header};
use std::sync::Arc;

/// A page of jobs ends early beyond this many bytes, since every job may have a large payload.
pub(super) const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Jobs read from the store at once for a page.
pub(super) const PAGE_CHUNK: usize = 50;

/// Create a job
///
/// The answer comes after the job is on disk. With an `Idempotency-Key`, sending the same again within 24 hours creates
/// nothing and gets the first answer, with `Idempotency-Replayed: true`. With `dry_run`, the job is checked and shown with
/// its next five fires, and nothing is stored.
#[utoipa::path(post, path = "/v1/jobs", tag = "Jobs", operation_id = "createJob", request_body = JobSpec,
    params(
        ("dry_run" = Option<bool>, Query, description = "Only check, and show what would be"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once; 1 to 255 characters")),
    responses(
        (status = 201, description = "Created", body = wire::Job,
            headers(("Location" = String, description = "Its address"), ("ETag" = String, description = "Its version"))),
        (status = 200, description = "What would be, on a dry run", body = wire::Job),
        (status = 400, description = "Malformed, or a field that does not exist", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The name is taken", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body or the payload is too large", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid, or the key was used for another request", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create_job(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let (input, draft) = read(&app, body.text())?;
    let key = one_key(idempotency::key(&head.headers)?, &input)?;
    if dry_run {
        let job = would_create(&app, &draft).await.map_err(|refusal| at_sent(refusal, &input))?;
        return Ok(json(StatusCode::OK, &job));
    }
    let keyed = key.map(|key| keyed(&app, CREATE, key, fingerprint("/v1/jobs", body.text()), StatusCode::CREATED));
    let verdict = app.engine.create(app.tenant(), vec![Create { draft, keyed }]).await.pop();
    let accepted = verdict.unwrap_or_else(|| Err(Error::new(Kind::Bug, "no verdict on a job")));
    accepted_answer(&app, accepted.map_err(|error| at_sent(error.into(), &input))?, StatusCode::CREATED)
}

/// The scope of keys of created jobs, alone or in a batch.
const CREATE: &str = "POST /v1/jobs";

/// Create many jobs
///
/// At most 1000. Every item is judged alone: the answer is 200 and has one result per item, with the status that it would
/// have got alone. An item may have its own `idempotency_key`; one on the whole request covers those that have none.
#[utoipa::path(post, path = "/v1/jobs:batch", tag = "Jobs", operation_id = "createJobs", request_body = BatchRequest,
    params(
        ("dry_run" = Option<bool>, Query, description = "Only check, and show what would be"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes every item happen once")),
    responses(
        (status = 200, description = "One result per item", body = Batch),
        (status = 400, description = "Malformed", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Too many items", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create_jobs(State(app): State<App>, head: Head, body: BatchBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let batch_key = idempotency::key(&head.headers)?;
    let items = batch_items(body.text())?;
    // Refused ones have their result at once; the others get it from the engine, in order.
    let mut results: Vec<Option<BatchItem>> = Vec::with_capacity(items.len());
    let mut inputs = Vec::new();
    let mut creates = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        match batch_item(&app, item, i, batch_key.as_deref()) {
            Ok((input, create)) if dry_run => results.push(Some(match would_create(&app, &create.draft).await {
                Ok(job) => BatchItem { status: 200, job: Some(Box::new(job)), problem: None, replayed: false },
                Err(refusal) => refused(&head, at_sent(refusal, &input)),
            })),
            Ok((input, create)) => {
                results.push(None);
                inputs.push(input);
                creates.push(create);
            }
            Err(refusal) => results.push(Some(refused(&head, refusal))),
        }
    }
    let verdicts = if creates.is_empty() { Vec::new() } else { app.engine.create(app.tenant(), creates).await };
    let mut verdicts = verdicts.into_iter().zip(inputs);
    let now = app.engine.now();
    let results: Vec<BatchItem> = results
        .into_iter()
        .map(|result| {
            result.unwrap_or_else(|| match verdicts.next() {
                Some((Ok(accepted), _)) => created(accepted, now),
                Some((Err(error), input)) => refused(&head, at_sent(error.into(), &input)),
                None => refused(&head, Error::new(Kind::Bug, "no verdict on a job").into()),
            })
        })
        .collect();
    let failed = results.iter().filter(|item| item.problem.is_some()).count() as u32;
    let created = results.len() as u32 - failed;
    Ok(json(StatusCode::OK, &Batch { results, created, failed }))
}

/// Get a job
///
/// By its id, or by `name:` and its name. With `If-None-Match` and its ETag, the answer is 304 while it has not changed.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "Jobs", operation_id = "getJob",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("If-None-Match" = Option<String>, Header, description = "ETag of the version that the client has")),
    responses(
        (status = 200, description = "The job", body = wire::Job, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "It has not changed"),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_job(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    head.params(&[])?;
    let job = find(&app, &job_key(&job)?).await?;
    if etag::is_known(&head.headers, job.version) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag::tag(job.version))]).into_response());
    }
    Ok(job_answer(StatusCode::OK, &convert::job(&job, app.engine.now())))
}

/// List jobs
///
/// By name, in pages. A page may be shorter than `limit` although there are more: `has_more` tells.
#[utoipa::path(get, path = "/v1/jobs", tag = "Jobs", operation_id = "listJobs",
    params(
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter"),
        ("state" = Option<String>, Query, description = "Only `ACTIVE` or `PAUSED` ones"),
        ("tag" = Option<String>, Query, description = "Only with this tag"),
        ("name_prefix" = Option<String>, Query, description = "Only with names that start so")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Job>,
            headers(("Link" = String, description = "The next page, where there is one"))),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_jobs(State(app): State<App>, head: Head) -> Answer {
    let params = head.params(&["limit", "cursor", "state", "tag", "name_prefix"])?;
    let limit = params.limit()?;
    let state = params.get("state").map(job_state).transpose()?;
    let (tag, name_prefix) = (params.get("tag").map(str::to_owned), params.get("name_prefix").map(str::to_owned));
    let list = format!("jobs {state:?} {tag:?} {name_prefix:?}");
    let mut after = match params.get("cursor") {
        Some(text) => {
            let position = cursor::decode(&app.cursor_key, &list, text)?;
            Some(String::from_utf8(position).map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?)
        }
        None => None,
    };
    let now = app.engine.now();
    let mut page = Page { data: Vec::new(), has_more: true, next_cursor: None };
    let mut bytes = 0;
    while page.has_more && page.data.len() < limit && bytes < PAGE_BYTES_MAX {
        let query = JobQuery {
            tenant: Some(app.tenant()),
            after: after.clone(),
            limit: PAGE_CHUNK.min(limit - page.data.len()),
            state,
            tag: tag.clone(),
            name_prefix: name_prefix.clone(),
            pause_ends_by: None,
        };
        let chunk = app.reads.list_jobs(&query).await?;
        page.has_more = chunk.has_more && !chunk.items.is_empty();
        for job in &chunk.items {
            bytes += shown_bytes(job);
            after = Some(job.name().to_owned());
            page.data.push(convert::job(job, now));
        }
    }
    page.next_cursor =
        after.filter(|_| page.has_more).map(|name| cursor::encode(&app.cursor_key, &list, name.as_bytes()));
    Ok(page_answer(&head, &page))
}

/// About how large a job is when it is shown.
pub(super) fn shown_bytes(job: &Job) -> usize {
    job.definition.payload.len() + job.definition.action.config.len() + 1_024
}

fn job_state(text: &str) -> Result<JobState, Refusal> {
    match text.to_ascii_uppercase().as_str() {
        "ACTIVE" => Ok(JobState::Active),
        "PAUSED" => Ok(JobState::Paused),
        _ => Err(Refusal::bad_request("parameter_invalid", "`state` must be ACTIVE or PAUSED")),
    }
}

// ---- shared with the routes that change jobs ----

/// The input and draft in a body.
pub(super) fn read(app: &App, text: &str) -> Result<(JobInput, Draft), Refusal> {
    let mut faults = Faults::default();
    let fields = Fields::job(text, &mut faults);
    read_fields(app, fields, faults)
}

/// The input and draft of `fields`, which were read with these faults. A refusal has all faults, the engine's too.
pub(super) fn read_fields(app: &App, fields: Fields, mut faults: Faults) -> Result<(JobInput, Draft), Refusal> {
    if fields.is_empty() && !faults.is_empty() {
        return Err(Refusal::invalid(faults.into_vec()));
    }
    let input = fields.into_job(&mut faults);
    let draft = convert::draft(&input, &mut faults);
    if faults.is_empty() {
        return Ok((input, draft));
    }
    if let Err(error) = app.engine.check(app.tenant(), &draft) {
        for mut fault in error.fields().iter().cloned().map(field) {
            fault.pointer = input.pointers.sent(&fault.pointer);
            faults.add(fault);
        }
    }
    Err(Refusal::invalid(faults.into_vec()))
}

/// A refusal with pointers in the spelling of the sender.
pub(super) fn at_sent(refusal: Refusal, input: &JobInput) -> Refusal {
    refusal.map_pointers(|pointer| input.pointers.sent(pointer))
}

/// The job that would be created, with its next fires.
pub(super) async fn would_create(app: &App, draft: &Draft) -> Result<wire::Job, Refusal> {
    let job = app.engine.check(app.tenant(), draft)?;
    let taken = app.reads.get_jobs(app.tenant(), &[JobKey::Name(job.name().to_owned())]).await?;
    if let Some(Some(other)) = taken.first() {
        let message = format!("the name `{}` is taken by {}", job.name(), other.id);
        return Err(Error::new(Kind::Conflict, message).with_code("name_taken").into());
    }
    Ok(convert::job_preview(&job, app.engine.now()))
}

/// The job that `key` names; deleted ones are gone.
pub(super) async fn find(app: &App, key: &JobKey) -> Result<Job, Refusal> {
    let found = app.reads.get_jobs(app.tenant(), std::slice::from_ref(key)).await?.pop().flatten();
    found.filter(|job| job.state != JobState::Deleted).ok_or_else(|| no_job(key))
}

pub(super) fn no_job(key: &JobKey) -> Refusal {
    let detail = match key {
        JobKey::Id(id) => format!("no job has the id {id}"),
        JobKey::Name(name) => format!("no job is named `{name}`"),
    };
    Refusal::new(StatusCode::NOT_FOUND, "job_not_found", detail)
}

/// A key that stores the answer, with this status, together with the write.
pub(super) fn keyed(app: &App, route: &str, key: String, fingerprint: u128, status: StatusCode) -> Keyed {
    let engine = app.engine.clone();
    let render = move |job: &Job| {
        let body = match status {
            StatusCode::NO_CONTENT => String::new(),
            _ => serde_json::to_string(&convert::job(job, engine.now())).unwrap_or_default(),
        };
        store::Answer { status: status.as_u16(), body }
    };
    let key = CallerKey { scope: format!("{} {route}", app.tenant().0), text: key, fingerprint };
    Keyed { key, render: Arc::new(render) }
}

/// The answer to an accepted write.
pub(super) fn accepted_answer(app: &App, accepted: Accepted, status: StatusCode) -> Answer {
    match accepted {
        Accepted::Job(_) if status == StatusCode::NO_CONTENT => Ok(status.into_response()),
        Accepted::Job(job) => Ok(job_answer(status, &convert::job(&job, app.engine.now()))),
        Accepted::Replayed(answer) => Ok(replayed(answer)),
    }
}

/// The answer of an earlier request with the same key.
fn replayed(answer: store::Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let job: Option<wire::Job> = serde_json::from_str(&answer.body).ok();
    let mut response = match &job {
        Some(job) => with_tags(json_text(status, answer.body), status, job),
        None => status.into_response(),
    };
    response.headers_mut().insert(HeaderName::from_static("idempotency-replayed"), HeaderValue::from_static("true"));
    response
}

/// A job as an answer, with its tag, and its address where it is new.
pub(super) fn job_answer(status: StatusCode, job: &wire::Job) -> Response {
    with_tags(json(status, job), status, job)
}

fn with_tags(mut response: Response, status: StatusCode, job: &wire::Job) -> Response {
    response.headers_mut().insert(header::ETAG, etag::tag(job.version));
    if status == StatusCode::CREATED {
        let location = HeaderValue::try_from(format!("/v1/jobs/{}", job.id));
        response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    }
    response
}

/// A page as an answer, with a link to the next one.
pub(super) fn page_answer<T: serde::Serialize>(head: &Head, page: &Page<T>) -> Response {
    let mut response = json(StatusCode::OK, page);
    if let Some(cursor) = &page.next_cursor {
        response.headers_mut().insert(header::LINK, head.next_link(cursor));
    }
    response
}

/// The one key of a request: in its header, or in its body.
fn one_key(in_header: Option<String>, input: &JobInput) -> Result<Option<String>, Refusal> {
    match (&in_header, &input.idempotency_key) {
        (_, None) => Ok(in_header),
        (Some(header), Some(body)) if header != body => {
            let message = "the body has another key than the Idempotency-Key header";
            let pointer = input.pointers.sent("/idempotency_key");
            Err(Refusal::invalid(vec![FieldProblem::new(pointer, "field_duplicate", message)]))
        }
        (_, Some(body)) => idempotency::check(body).map(Some),
    }
}

// ---- batches ----

/// The items of a batch: `{"jobs": [...]}`, or the array alone.
fn batch_items(text: &str) -> Result<Vec<&str>, Refusal> {
    let wrong =
        |pointer: &str, code: &str, message: &str| Refusal::invalid(vec![FieldProblem::new(pointer, code, message)]);
    let list = match json::members(text) {
        None => text,
        Some(members) => match &members[..] {
            [(name, list)] if name == "jobs" => list,
            [] => return Err(wrong("", "jobs_missing", "a batch needs `jobs`, an array")),
            _ => {
                let odd = members.iter().map(|(name, _)| name.as_str()).find(|name| *name != "jobs").unwrap_or("jobs");
                let shown: String = odd.chars().take(64).flat_map(char::escape_debug).collect();
                let message = format!("a batch has one field, `jobs`, and not `{shown}`");
                return Err(wrong("", "field_unknown", &message));
            }
        },
    };
    let items = json::elements(list).ok_or_else(|| wrong("/jobs", "wrong_type", "`jobs` must be an array"))?;
    if items.len() > limits::BATCH_JOBS_MAX {
        let message = format!("a batch has at most {} jobs, got {}", limits::BATCH_JOBS_MAX, items.len());
        return Err(wrong("/jobs", "batch_too_large", &message));
    }
    Ok(items)
}

fn batch_item(app: &App, text: &str, index: usize, batch_key: Option<&str>) -> Result<(JobInput, Create), Refusal> {
    let (input, draft) = read(app, text)?;
    let keyed = match (&input.idempotency_key, batch_key) {
        (Some(own), _) => {
            let key = idempotency::check(own)?;
            Some(keyed(app, CREATE, key, fingerprint("/v1/jobs", text), StatusCode::CREATED))
        }
        (None, Some(batch_key)) => {
            let key = format!("{batch_key}#{index}");
            Some(keyed(app, "POST /v1/jobs:batch", key, fingerprint("/v1/jobs:batch", text), StatusCode::CREATED))
        }
        (None, None) => None,
    };
    Ok((input, Create { draft, keyed }))
}

fn created(accepted: Accepted, now: campanile_model::Timestamp) -> BatchItem {
    match accepted {
        Accepted::Job(job) => {
            let job = Some(Box::new(convert::job(&job, now)));
            BatchItem { status: 201, job, problem: None, replayed: false }
        }
        Accepted::Replayed(answer) => {
            let job = serde_json::from_str(&answer.body).ok().map(Box::new);
            BatchItem { status: answer.status, job, problem: None, replayed: true }
        }
    }
}

fn refused(head: &Head, refusal: Refusal) -> BatchItem {
    let status = refusal.status().as_u16();
    BatchItem { status, job: None, problem: Some(refusal.into_problem(head.request_id())), replayed: false }
}
