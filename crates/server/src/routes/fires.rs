//! The fires of a job: why one ran or did not, cancelling one, filling in past ones.

use super::executions::{read_cancel, refused_cancel};
use super::jobs::find;
use super::operations::accepted_operation;
use super::runs::accepted_execution;
use crate::problem::Refusal;
use crate::request::{Answer, Head, SmallBody, faultless, job_key, json};
use crate::{App, convert};
use axum::extract::{Path, State};
use campanile_client::wire::input::{BackfillInput, Faults};
use campanile_client::wire::{
    self, BackfillPlan, BackfillRequest, CancelFireRequest, FieldProblem, PlannedFire, Problem,
};
use campanile_engine::operate::{self, BackfillSpec, Reprocess, Terms};
use campanile_engine::why::Why;
use campanile_model::execution::Reason;
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::{ExecutionId, Timestamp, limits};
use http::StatusCode;

/// Did it run, and why not?
///
/// For any job and instant, also one that never ran: what became of it, the reason, the facts that show it, and what to do.
/// `at` means the fire within the second after it.
#[utoipa::path(get, path = "/v1/jobs/{job}/why", tag = "Jobs", operation_id = "whyJob",
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("at" = Option<String>, Query, description = "The instant: RFC 3339, a date, `now` (where nothing is said), or `-2h`")),
    responses(
        (status = 200, description = "The answer", body = wire::Why),
        (status = 400, description = "The instant cannot be read", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn why(State(app): State<App>, head: Head, Path(job): Path<String>) -> Answer {
    let now = app.engine.now();
    let at = head.params(&["at"])?.near("at", now)?.unwrap_or(now);
    let why = app.engine.why(app.tenant(), &job_key(&job)?, at).await?;
    Ok(json(StatusCode::OK, &shown(&app, why)))
}

fn shown(app: &App, why: Why) -> wire::Why {
    wire::Why {
        verdict: why.verdict.as_str().to_owned(),
        reason: why.reason.map(|reason| reason.as_str().to_owned()),
        at: why.at.to_string(),
        execution: why.execution.as_ref().map(|execution| Box::new(convert::execution(&app.engine, execution))),
        attempts: why.attempts.iter().map(convert::attempt).collect(),
        skip: why.skip.as_ref().map(convert::skip),
        evidence: why.evidence,
        not_the_cause: why.not_the_cause,
        fixes: why.fixes,
        previous_fire_at: why.around.0.map(|at| at.to_string()),
        next_fire_at: why.around.1.map(|at| at.to_string()),
    }
}

/// Cancel a fire
///
/// One instant of the job's schedule, whether it has come or not. What would fire later does not any more, and has a
/// cancelled execution to show for it.
#[utoipa::path(post, path = "/v1/jobs/{job}/fires/cancel", tag = "Jobs", operation_id = "cancelFire",
    request_body = CancelFireRequest,
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 202, description = "Cancelled, or asked to stop", body = wire::Execution),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over already (`execution_final`); `state` says how", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The job does not fire then (`not_a_fire`)", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel_fire(
    State(app): State<App>,
    head: Head,
    Path(job): Path<String>,
    body: SmallBody,
) -> Answer {
    head.params(&[])?;
    let key = job_key(&job)?;
    let (at, cancel) = read_cancel(&head, body.text())?;
    let missing = || Refusal::invalid(vec![FieldProblem::new("/at", "instant_invalid", "say which fire: `at`")]);
    let at: Timestamp = at
        .ok_or_else(missing)?
        .parse()
        .map_err(|error| Refusal::invalid(vec![FieldProblem::new("/at", "instant_invalid", format!("{error}"))]))?;
    match app.engine.cancel_fire(app.tenant(), &key, at, cancel).await {
        Ok((cancelled, was_replayed)) => Ok(accepted_execution(&app, &cancelled, was_replayed)),
        Err(error) if error.code() == "execution_final" => {
            let job = find(&app, &key).await?;
            Err(refused_cancel(&app, ExecutionId::scheduled(app.tenant(), job.id, at), error).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// Fill in past fires
///
/// Those of a range that have no execution; with `reprocess`, also those that did not succeed, or all. Runs as an operation
/// with its own concurrency. With `dry_run`, only the plan is answered.
#[utoipa::path(post, path = "/v1/jobs/{job}/backfill", tag = "Operations", operation_id = "backfillJob",
    request_body = BackfillRequest,
    params(
        ("job" = String, Path, description = "Id, or `name:` and a name"),
        ("dry_run" = Option<bool>, Query, description = "Only show what would be done")),
    responses(
        (status = 202, description = "Accepted", body = wire::Operation,
            headers(("Location" = String, description = "The operation's address"))),
        (status = 200, description = "What would be done, on a dry run", body = BackfillPlan),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many operations are at work", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn backfill_job(
    State(app): State<App>,
    head: Head,
    Path(job): Path<String>,
    body: SmallBody,
) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let job = find(&app, &job_key(&job)?).await?;
    let mut faults = Faults::default();
    let input = BackfillInput::read(body.text(), &mut faults);
    let spec = spec(&app, job.id.to_string(), &input, &mut faults);
    let spec = faultless(spec, faults)?;
    let at_sent = |error: campanile_model::Error| Refusal::from(error).map_pointers(|p| input.pointers.sent(p));
    if dry_run {
        let plan = app.engine.preview_backfill(app.tenant(), &spec).await.map_err(at_sent)?;
        return Ok(json(StatusCode::OK, &plan_shown(plan)));
    }
    let operation = app.engine.backfill(app.tenant(), spec).await.map_err(at_sent)?;
    accepted_operation(&operation)
}

fn spec(app: &App, job: String, input: &BackfillInput, faults: &mut Faults) -> BackfillSpec {
    const REPROCESS: [(Reprocess, &str); 3] =
        [(Reprocess::None, "NONE"), (Reprocess::Failed, "FAILED"), (Reprocess::All, "ALL")];
    let now = app.engine.now();
    let mut read = convert::Reader::new(&input.pointers, faults);
    if input.from.is_none() {
        read.missing("/from", "say from when: `from`");
    }
    let from = read.near("/from", &input.from, now).unwrap_or(now);
    let to = read.near("/to", &input.to, now).unwrap_or(now);
    let reprocess = read
        .word("/reprocess", "reprocess_invalid", &input.reprocess, &REPROCESS, |(_, word)| word)
        .flatten()
        .map_or(Reprocess::None, |(reprocess, _)| reprocess);
    let open_max = 1..=limits::OPERATION_OPEN_MAX as u64;
    let max_open = read.within("/max_parallel", "max_parallel_invalid", input.max_parallel, open_max).unwrap_or(1);
    let per_second = read.rate(&input.rate);
    let terms = Terms { per_second, max_open: Some(max_open as usize), ..Terms::default() };
    BackfillSpec { job, from_ms: from.millis(), to_ms: to.millis(), reprocess, terms }
}

fn plan_shown(plan: operate::BackfillPlan) -> BackfillPlan {
    let sample = |fire: operate::PlannedFire| PlannedFire {
        fire_at: fire.fire_at.to_string(),
        state: fire.state.map(|state| state.as_str().to_owned()),
        starts: fire.starts,
        reason: (fire.state == Some(ExecutionState::Succeeded) && !fire.starts)
            .then(|| Reason::Deduplicated.as_str().to_owned()),
    };
    let samples = plan.samples.into_iter().map(sample).collect();
    BackfillPlan { dry_run: true, fires: plan.fires, starts: plan.starts, unknown: plan.unknown, samples }
}
