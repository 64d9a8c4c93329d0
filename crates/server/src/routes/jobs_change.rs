//! Jobs: replace, patch, delete, pause, resume.

use super::jobs::{accepted_answer, at_sent, find, job_answer, keyed, no_job, read, read_fields, would_create};
use crate::etag::{self, IfMatch};
use crate::idempotency::fingerprint;
use crate::problem::Refusal;
use crate::request::{Answer, Head, JobBody, NoBody, OptionalBody, faultless, job_key, json};
use crate::{App, convert};
use axum::extract::{Path, State};
use campanile_client::wire::input::{Faults, Fields, JobInput, PauseInput};
use campanile_client::wire::{self, FieldProblem, JobSpec, PauseRequest, Problem};
use campanile_engine::accept::{Create, Draft};
use campanile_engine::jobs::Conditions;
use campanile_model::job::version::Change;
use campanile_model::job::{Job, JobState};
use campanile_model::store::JobKey;
use campanile_model::{Error, Kind};
use http::StatusCode;

/// A write that loses its race this often is given up.
const TRIES_MAX: usize = 8;

/// A change, as asked for.
pub(super) struct Asked<'a> {
    app: &'a App,
    job: JobKey,
    if_match: Option<IfMatch>,
    key: Option<String>,
    /// What keys are unique within, such as `PUT /v1/jobs/{job}`.
    route: &'static str,
    fingerprint: u128,
}

impl<'a> Asked<'a> {
    pub(super) fn new(app: &'a App, head: &Head, route: &'static str, job: &str, body: &str) -> Result<Self, Refusal> {
        let (if_match, key) = head.conditions()?;
        let fingerprint = fingerprint(&format!("{route} {job}"), body);
        Ok(Self { app, job: job_key(job)?, if_match, key, route, fingerprint })
    }

    /// The conditions of the change, whose answer has this status.
    pub(super) fn conditions(&self, status: StatusCode) -> Conditions {
        let keyed = self.key.clone().map(|key| keyed(self.app, self.route, key, self.fingerprint, status));
        Conditions { if_match: self.version(), keyed }
    }

    /// Which job.
    pub(super) fn job(&self) -> &JobKey {
        &self.job
    }

    fn version(&self) -> Option<u32> {
        match self.if_match {
            Some(IfMatch::Version(version)) => Some(version),
            Some(IfMatch::Any) | None => None,
        }
    }

    /// The job as it is, if it is in the version that the client wants: for dry runs.
    pub(super) async fn current(&self) -> Result<Job, Refusal> {
        let job = find(self.app, &self.job).await?;
        match self.version() {
            Some(version) if version != job.version => Err(another_version(job.version)),
            _ => Ok(job),
        }
    }
}

fn another_version(version: u32) -> Refusal {
    let error = Error::new(Kind::Conflict, format!("the job is in version {version} now"));
    Refusal::from(error.with_code("version_mismatch")).with_version(version)
}

/// Replace a job
///
/// The whole definition: what is not sent gets its default. By `name:`, the job is created where there is none. Fires go on
/// where they stand unless the schedule changed. With `If-Match`, only that version is replaced; with `If-None-Match: *`,
/// only a new job is created.
#[utoipa::path(put, path = "/v1/jobs/{job}", tag = "Jobs", operation_id = "replaceJob", request_body = JobSpec,
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only check, and show what would be"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to replace"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only create"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 200, description = "Replaced, or what would be on a dry run", body = wire::Job),
        (status = 201, description = "Created, by name", body = wire::Job),
        (status = 404, description = "No job has this id", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The job is in another version", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replace_job(State(app): State<App>, head: Head, Path(job): Path<String>, body: JobBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let asked = Asked::new(&app, &head, "PUT /v1/jobs/{job}", &job, body.text())?;
    let (input, draft) = read_named(&app, &asked.job, body.text())?;
    let must_be_new = etag::must_be_new(&head.headers);
    let may_create = matches!(asked.job, JobKey::Name(_)) && asked.if_match.is_none();
    let answer = if dry_run {
        would_put(&asked, &input, draft, must_be_new, may_create).await
    } else {
        put(&asked, &input, draft, must_be_new, may_create).await
    };
    answer.map_err(|refusal| at_sent(refusal, &input))
}

/// Reads a body whose name may be left to the path.
fn read_named(app: &App, key: &JobKey, text: &str) -> Result<(JobInput, Draft), Refusal> {
    let JobKey::Name(name) = key else { return read(app, text) };
    let mut faults = Faults::default();
    let mut fields = Fields::job(text, &mut faults);
    fields.name_or(name);
    let (input, draft) = read_fields(app, fields, faults)?;
    if draft.definition.name != *name {
        let message = format!("the path says `{name}`; rename a job by its id");
        let pointer = input.pointers.sent("/name");
        return Err(Refusal::invalid(vec![FieldProblem::new(pointer, "name_mismatch", message)]));
    }
    Ok((input, draft))
}

async fn would_put(asked: &Asked<'_>, input: &JobInput, draft: Draft, must_be_new: bool, may_create: bool) -> Answer {
    let app = asked.app;
    match asked.current().await {
        Ok(job) if must_be_new => Err(another_version(job.version)),
        Ok(job) => {
            check_paused(input, &job)?;
            let job = app.engine.preview_replace(app.tenant(), &asked.job, draft).await?;
            Ok(job_answer(StatusCode::OK, &convert::job_preview(&job, app.engine.now())))
        }
        Err(refusal) if refusal.status() == StatusCode::NOT_FOUND && may_create => {
            Ok(json(StatusCode::OK, &would_create(app, &draft).await?))
        }
        Err(refusal) => Err(absent(asked, refusal)),
    }
}

/// Replaces, or creates by name; again when somebody else created or deleted it in between.
async fn put(asked: &Asked<'_>, input: &JobInput, draft: Draft, must_be_new: bool, may_create: bool) -> Answer {
    let app = asked.app;
    for _ in 0..TRIES_MAX {
        if !must_be_new {
            if input.paused == Some(false) {
                // Only then the state matters; without this, a replay would need no reading.
                if let Ok(job) = find(app, &asked.job).await {
                    check_paused(input, &job)?;
                }
            }
            match app.engine.replace(app.tenant(), &asked.job, draft.clone(), asked.conditions(StatusCode::OK)).await {
                Ok(accepted) => return accepted_answer(app, accepted, StatusCode::OK),
                Err(error) if error.kind() == Kind::NotFound && may_create => {}
                Err(error) => return Err(absent(asked, error.into())),
            }
        }
        if !may_create {
            // `If-None-Match: *` on an id: the client cannot choose ids.
            return Err(no_job(&asked.job));
        }
        let keyed = asked.conditions(StatusCode::CREATED).keyed;
        let create = Create { draft: draft.clone(), keyed };
        match app.engine.create(app.tenant(), vec![create]).await.pop() {
            Some(Ok(accepted)) => return accepted_answer(app, accepted, StatusCode::CREATED),
            Some(Err(error)) if error.code() == "name_taken" && must_be_new => {
                let refusal = Refusal::new(StatusCode::PRECONDITION_FAILED, "job_exists", error.message());
                return Err(refusal);
            }
            Some(Err(error)) if error.code() == "name_taken" => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Error::new(Kind::Bug, "no verdict on a job").into()),
        }
    }
    Err(Error::new(Kind::Unavailable, "the job is being changed too often; try again").into())
}

/// A missing job fails `If-Match`, whatever it asks for.
fn absent(asked: &Asked<'_>, refusal: Refusal) -> Refusal {
    if refusal.status() == StatusCode::NOT_FOUND && asked.if_match.is_some() {
        return Refusal::new(StatusCode::PRECONDITION_FAILED, "job_not_found", "there is no job to match");
    }
    refusal
}

/// Changing a job does not resume it: missed fires would need a decision that only `resume` makes.
fn check_paused(input: &JobInput, job: &Job) -> Result<(), Refusal> {
    if input.paused == Some(false) && job.state == JobState::Paused {
        let pointer = if input.pointers.knows("/paused") { "/paused" } else { "/state" };
        let message = "the job is paused, and a change does not resume it";
        let fault = FieldProblem::new(pointer, "job_paused", message).hint(format!("POST /v1/jobs/{}/resume", job.id));
        return Err(Refusal::invalid(vec![fault]));
    }
    Ok(())
}

/// Change parts of a job
///
/// JSON merge patch (RFC 7396) in any spelling that creation accepts: what is `null` gets its default. Another kind of
/// schedule takes the place of the old one.
#[utoipa::path(patch, path = "/v1/jobs/{job}", tag = "Jobs", operation_id = "patchJob",
    request_body(content = JobSpec, content_type = "application/merge-patch+json"),
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only check, and show what would be"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to change"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 200, description = "Changed, or what would be on a dry run", body = wire::Job),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The job is in another version", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn patch_job(State(app): State<App>, head: Head, Path(job): Path<String>, body: JobBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let asked = Asked::new(&app, &head, "PATCH /v1/jobs/{job}", &job, body.text())?;
    for _ in 0..TRIES_MAX {
        let current = find(&app, &asked.job).await?;
        let (input, draft) = patched(&app, &current, body.text())?;
        check_paused(&input, &current)?;
        if dry_run {
            let current = asked.current().await?;
            let preview = app.engine.preview_replace(app.tenant(), &JobKey::Id(current.id), draft).await;
            let job = preview.map_err(|error| at_sent(error.into(), &input))?;
            return Ok(job_answer(StatusCode::OK, &convert::job_preview(&job, app.engine.now())));
        }
        // The patch was applied to this version, so it must still be this one.
        let if_match = Some(asked.version().unwrap_or(current.version));
        let conditions = Conditions { if_match, ..asked.conditions(StatusCode::OK) };
        match app.engine.replace(app.tenant(), &JobKey::Id(current.id), draft, conditions).await {
            Ok(accepted) => return accepted_answer(&app, accepted, StatusCode::OK),
            Err(error) if error.code() == "version_mismatch" && asked.version().is_none() => {}
            Err(error) => return Err(at_sent(error.into(), &input)),
        }
    }
    Err(Error::new(Kind::Unavailable, "the job is being changed too often; try again").into())
}

/// What is stored, with a patch applied.
fn patched(app: &App, current: &Job, patch: &str) -> Result<(JobInput, Draft), Refusal> {
    let mut faults = Faults::default();
    let action = convert::action_whole(&current.definition.action);
    let stored = wire::Job { action, ..convert::job(current, current.effective_at) };
    let stored = serde_json::to_string(&stored).unwrap_or_default();
    let mut fields = Fields::job(&stored, &mut Faults::default());
    fields.patch(Fields::job(patch, &mut faults));
    read_fields(app, fields, faults)
}

/// Delete a job
///
/// No fire starts any more. Its history stays, and its name is free.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "Jobs", operation_id = "deleteJob",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show what would be deleted"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to delete"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 200, description = "What would be deleted, on a dry run", body = wire::Job),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The job is in another version", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn delete_job(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let asked = Asked::new(&app, &head, "DELETE /v1/jobs/{job}", &job, "{}")?;
    if head.params(&["dry_run"])?.flag("dry_run")? {
        return would_be(&asked, Change::Delete).await;
    }
    let accepted = app.engine.delete(app.tenant(), &asked.job, asked.conditions(StatusCode::NO_CONTENT)).await?;
    accepted_answer(&app, accepted, StatusCode::NO_CONTENT)
}

/// Pause a job
///
/// It does not fire until it is resumed, or until an instant. What already runs goes on.
#[utoipa::path(post, path = "/v1/jobs/{job}/pause", tag = "Jobs", operation_id = "pauseJob",
    request_body(content = Option<PauseRequest>, content_type = "application/json"),
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show what would be"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to pause"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 200, description = "Paused", body = wire::Job),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The end of the pause lies in the past", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn pause_job(
    State(app): State<App>,
    head: Head,
    Path(job): Path<String>,
    body: OptionalBody,
) -> Answer {
    let asked = Asked::new(&app, &head, "POST /v1/jobs/{job}/pause", &job, body.text())?;
    let mut faults = Faults::default();
    let input = PauseInput::read(body.text(), &mut faults);
    let until = convert::Reader::new(&input.pointers, &mut faults).until("/until", &input.until, app.engine.now());
    let until = faultless(until, faults)?;
    if head.params(&["dry_run"])?.flag("dry_run")? {
        return would_be(&asked, Change::Pause(until)).await;
    }
    let accepted = app.engine.pause(app.tenant(), &asked.job, until, asked.conditions(StatusCode::OK)).await?;
    accepted_answer(&app, accepted, StatusCode::OK)
}

/// Resume a job
///
/// It fires again from now on. What came due while it was paused is recorded as skipped, not caught up.
#[utoipa::path(post, path = "/v1/jobs/{job}/resume", tag = "Jobs", operation_id = "resumeJob",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show what would be"),
        ("If-Match" = Option<String>, Header, description = "ETag of the version to resume"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 200, description = "Resumed", body = wire::Job),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn resume_job(State(app): State<App>, head: Head, Path(job): Path<String>, _: NoBody) -> Answer {
    let asked = Asked::new(&app, &head, "POST /v1/jobs/{job}/resume", &job, "{}")?;
    if head.params(&["dry_run"])?.flag("dry_run")? {
        return would_be(&asked, Change::Resume).await;
    }
    let accepted = app.engine.resume(app.tenant(), &asked.job, asked.conditions(StatusCode::OK)).await?;
    accepted_answer(&app, accepted, StatusCode::OK)
}

/// The job as it would be in another state.
async fn would_be(asked: &Asked<'_>, change: Change) -> Answer {
    let engine = &asked.app.engine;
    let current = asked.current().await?;
    let job = engine.preview_state(asked.app.tenant(), &JobKey::Id(current.id), change).await?;
    Ok(json(StatusCode::OK, &convert::job_preview(&job, engine.now())))
}
