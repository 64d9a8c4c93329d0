//! Versions of a job: what it was, since when, and going back to an earlier one.

use super::jobs::{PAGE_BYTES_MAX, PAGE_CHUNK, accepted_answer, job_answer, no_job, page_answer, shown_bytes};
use super::jobs_change::Asked;
use crate::problem::Refusal;
use crate::request::{Answer, Head, SmallBody, faultless, job_key};
use crate::{App, convert, cursor};
use axum::extract::{Path, State};
use campanile_client::wire::input::{Faults, RevertInput};
use campanile_client::wire::{self, Page, Problem, RevertRequest};
use campanile_model::job::Job;
use campanile_model::store::JobKey;
use http::StatusCode;

/// List the versions of a job
///
/// Newest first; the newest is the job as it is. Each governs the instants after its `effective_at`, up to and including its
/// `ended_at`. A deleted job is found by its id.
#[utoipa::path(get, path = "/v1/jobs/{job}/versions", tag = "Jobs", operation_id = "listJobVersions",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Job>,
            headers(("Link" = String, description = "The next page, where there is one"))),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_versions(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let params = head.params(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let job = find(&app, &job_key(&job)?).await?;
    let list = format!("versions {}", job.id);
    let before = match params.get("cursor") {
        Some(text) => Some(position(&cursor::decode(&app.cursor_key, &list, text)?)?),
        None => None,
    };
    let now = app.engine.now();
    let mut page = Page { data: Vec::new(), has_more: true, next_cursor: None };
    let (mut bytes, mut last) = (0, before);
    while page.has_more && page.data.len() < limit && bytes < PAGE_BYTES_MAX {
        let wanted = PAGE_CHUNK.min(limit - page.data.len());
        let found = app.reads.list_versions(app.tenant(), job.id, last, wanted).await?;
        page.has_more = found.has_more && !found.items.is_empty();
        for version in &found.items {
            bytes += shown_bytes(&version.job);
            last = Some(version.job.version);
            page.data.push(convert::job_version(version, now));
        }
    }
    let next = last.filter(|_| page.has_more);
    page.next_cursor = next.map(|version| cursor::encode(&app.cursor_key, &list, &version.to_be_bytes()));
    Ok(page_answer(&head, &page))
}

fn position(bytes: &[u8]) -> Result<u32, Refusal> {
    let bytes = bytes.try_into().map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?;
    Ok(u32::from_be_bytes(bytes))
}

/// Read a version of a job
#[utoipa::path(get, path = "/v1/jobs/{job}/versions/{version}", tag = "Jobs", operation_id = "getJobVersion",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("version" = u32, Path, description = "Which version, from 1")),
    responses(
        (status = 200, description = "The job, as it was", body = wire::Job),
        (status = 404, description = "There is no such job, or it has no such version any more (`version_not_found`)", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_version(
    State(app): State<App>,
    head: Head,
    Path((job, version)): Path<(String, String)>,
) -> Answer {
    head.params(&[])?;
    let job = find(&app, &job_key(&job)?).await?;
    let missing = || {
        let detail = format!("{} has no version {version}, or it is no longer kept", job.id);
        Refusal::new(StatusCode::NOT_FOUND, "version_not_found", detail)
    };
    let number: u32 = version.parse().map_err(|_| missing())?;
    let before = number.checked_add(1).ok_or_else(missing)?;
    let found = app.reads.list_versions(app.tenant(), job.id, Some(before), 1).await?.items.pop();
    let found = found.filter(|found| found.job.version == number).ok_or_else(missing)?;
    Ok(job_answer(StatusCode::OK, &convert::job_version(&found, app.engine.now())))
}

/// Go back to an earlier version
///
/// The job gets the definition that it had in that version, as a new version. Whether it is paused stays as it is. The instant
/// of a one-off neither moves nor repeats.
#[utoipa::path(post, path = "/v1/jobs/{job}/revert", tag = "Jobs", operation_id = "revertJob", request_body = RevertRequest,
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show what would be"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to leave"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 200, description = "Reverted, or what would be on a dry run", body = wire::Job),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The name that it had is taken", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The job is in another version", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There is no such version", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn revert_job(State(app): State<App>, head: Head, Path(job): Path<String>, body: SmallBody) -> Answer {
    let asked = Asked::new(&app, &head, "POST /v1/jobs/{job}/revert", &job, body.text())?;
    let mut faults = Faults::default();
    let input = RevertInput::read(body.text(), &mut faults);
    let mut read = convert::Reader::new(&input.pointers, &mut faults);
    if input.version.is_none() {
        read.missing("/version", "say which version: `version`");
    }
    let to = read.within("/version", "version_invalid", input.version, 1..=u64::from(u32::MAX)).unwrap_or(1) as u32;
    let to = faultless(to, faults)?;
    let at_sent = |error: campanile_model::Error| Refusal::from(error).map_pointers(|p| input.pointers.sent(p));
    if head.params(&["dry_run"])?.flag("dry_run")? {
        let current = asked.current().await?;
        let preview = app.engine.preview_revert(app.tenant(), &JobKey::Id(current.id), to).await.map_err(at_sent)?;
        return Ok(job_answer(StatusCode::OK, &convert::job_preview(&preview, app.engine.now())));
    }
    let conditions = asked.conditions(StatusCode::OK);
    let accepted = app.engine.revert(app.tenant(), asked.job(), to, conditions).await.map_err(at_sent)?;
    accepted_answer(&app, accepted, StatusCode::OK)
}

/// The job that `key` names, deleted or not.
async fn find(app: &App, key: &JobKey) -> Result<Job, Refusal> {
    let found = app.reads.get_jobs(app.tenant(), std::slice::from_ref(key)).await?.pop().flatten();
    found.ok_or_else(|| no_job(key))
}
