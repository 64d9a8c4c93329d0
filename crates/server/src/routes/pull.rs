//! The worker protocol: claim, heartbeat, complete, release.
//!
//! The hot path of external workers. Bodies are read in one pass; a batch is one call of the engine, whatever its size; a
//! claim that waits holds a permit and no body.

use crate::App;
use crate::convert::pull;
use crate::limits::WAIT_MAX;
use crate::problem::Refusal;
use crate::request::{Answer, Head, TextBody, execution_id, json};
use axum::extract::{Path, State};
use campanile_client::wire::input::worker::{
    ClaimInput, CompleteBatchInput, CompleteInput, HeartbeatInput, ReleaseInput, Unreadable, read,
};
use campanile_client::wire::{
    BeatResult, BeatStatus, ClaimRequest, ClaimResponse, CompleteBatchRequest, CompleteBatchResponse, CompleteRequest,
    CompleteResponse, CompleteResult, FieldProblem, HeartbeatRequest, HeartbeatResponse, Problem, ReleaseRequest,
};
use campanile_engine::run::pull::{Beat, Finish, Finishing, cancel_reason};
use campanile_engine::workers::Introduction;
use campanile_model::execution::Outcome;
use campanile_model::store::Extended;
use campanile_model::{ExecutionId, Timestamp, limits};
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The body of a claim: some hundred names at most.
type ClaimBody = TextBody<{ limits::JOB_REQUEST_BYTES_MAX }>;
/// The body of a request about up to a thousand attempts.
type AttemptsBody = TextBody<{ limits::REQUEST_BYTES_MAX }>;

/// Take work
///
/// Waits up to `wait_ms` for the first execution, and answers with up to `capacity` of them. They are claimed on disk before
/// they are answered, and stay the worker's for `lease_ms` and as long as heartbeats come. A worker that hangs up while it
/// waits has taken nothing. Too many that wait at the same time are answered at once.
#[utoipa::path(post, path = "/internal/v1/executions/claim", tag = "Worker protocol", operation_id = "claimExecutions",
    request_body = ClaimRequest,
    responses(
        (status = 200, description = "What is now the worker's, perhaps nothing", body = ClaimResponse),
        (status = 400, description = "Malformed", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn claim(State(app): State<App>, head: Head, body: ClaimBody) -> Answer {
    head.params(&[])?;
    let mut input: ClaimInput = parse(body.text()?)?;
    let wait_ms = input.wait_ms.take().unwrap_or_default().min(WAIT_MAX.as_millis() as u64);
    let intro = checked(pull::introduction(input))?;
    drop(body);
    let answer = wait(&app, &intro, wait_ms).await?;
    let (directive, lease_ms) = (pull::directive(answer.directive), app.engine.lease_ms());
    let executions = answer.pulled.into_iter().map(|pulled| pull::claimed(pulled, lease_ms)).collect();
    Ok(json(StatusCode::OK, &ClaimResponse { executions, directive }))
}

/// Waits for work, as long as there is room to wait and the server goes on.
async fn wait(app: &App, intro: &Introduction, wait_ms: u64) -> Result<campanile_engine::run::pull::Answer, Refusal> {
    let permit = app.polls.try_acquire();
    if wait_ms == 0 || permit.is_err() {
        return Ok(app.engine.pull(intro, 0).await?);
    }
    tokio::select! {
        biased;
        answer = app.engine.pull(intro, wait_ms) => Ok(answer?),
        () = app.options.stopping.begun() => Ok(campanile_engine::run::pull::Answer::default()),
    }
}

/// Keep work
///
/// Prolongs leases, and keeps what the attempts tell about themselves. `CANCEL` asks an attempt to stop; `STALE` says that it
/// is not the worker's any more. With `execution_ids` instead of `executions`, the worker's name is checked instead of fences.
#[utoipa::path(post, path = "/internal/v1/executions/heartbeat", tag = "Worker protocol", operation_id = "heartbeat",
    request_body = HeartbeatRequest,
    responses(
        (status = 200, description = "One result each, in the same order", body = HeartbeatResponse),
        (status = 400, description = "Malformed", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid; no lease was prolonged", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn heartbeat(State(app): State<App>, head: Head, body: AttemptsBody) -> Answer {
    head.params(&[])?;
    let input: HeartbeatInput<'_> = parse(body.text()?)?;
    let worker = checked(pull::worker_id(&input.worker_id))?;
    let (beats, ids) = (input.executions.unwrap_or_default(), input.execution_ids.unwrap_or_default());
    bounded("/executions", beats.len() + ids.len())?;
    let now = app.engine.now();
    // One that is no id of ours is nobody's attempt, and must not cost the others their leases.
    let mut sent = Vec::with_capacity(beats.len() + ids.len());
    let mut known = Vec::with_capacity(beats.len() + ids.len());
    for (i, beat) in beats.into_iter().enumerate() {
        let execution: Option<ExecutionId> = beat.id.parse().ok();
        sent.push((beat.id.to_string(), execution.is_some()));
        if let Some(execution) = execution {
            known.push(checked(pull::beat(execution, beat, now, &format!("/executions/{i}")))?);
        }
    }
    for id in ids {
        let execution: Option<ExecutionId> = id.parse().ok();
        sent.push((id.into_owned(), execution.is_some()));
        known.extend(execution.map(|execution| Beat { execution, fence: None, progress: None, logs: Vec::new() }));
    }
    let (verdicts, directive) = app.engine.heartbeat(&worker, known).await?;
    let mut verdicts = verdicts.into_iter();
    let result = |(id, is_known): (String, bool)| {
        beat_result(id, is_known.then(|| verdicts.next()).flatten().unwrap_or(Extended::Gone), now)
    };
    let results = sent.into_iter().map(result).collect();
    Ok(json(StatusCode::OK, &HeartbeatResponse { results, directive: pull::directive(directive) }))
}

fn beat_result(id: String, verdict: Extended, now: Timestamp) -> BeatResult {
    let (status, lease_ms, reason) = match verdict {
        Extended::Until(until) => (BeatStatus::Extended, until.ms_since(now), None),
        Extended::Cancel { until, reason } => (BeatStatus::Cancel, until.ms_since(now), Some(cancel_reason(reason))),
        Extended::Stale { state } => (BeatStatus::Stale, 0, Some(state.as_str())),
        Extended::Gone => (BeatStatus::Stale, 0, Some("NOT_FOUND")),
    };
    BeatResult { id, status, lease_ms, reason: reason.map(str::to_owned) }
}

/// End an attempt
///
/// The fence of the claim decides; without it, the worker's name does. The same completion sent again is answered the same.
#[utoipa::path(post, path = "/internal/v1/executions/{execution}/complete", tag = "Worker protocol",
    operation_id = "completeExecution", request_body = CompleteRequest,
    params(("execution" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "Recorded", body = CompleteResponse),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is not the worker's any more (`stale_fence`); `state` says how it is", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn complete(
    State(app): State<App>,
    head: Head,
    Path(execution): Path<String>,
    body: AttemptsBody,
) -> Answer {
    head.params(&[])?;
    let id = execution_id(&execution)?;
    let input: CompleteInput<'_> = parse(body.text()?)?;
    if input.id.as_deref().is_some_and(|sent| sent.parse() != Ok(id)) {
        let fault = FieldProblem::new("/id", "id_mismatch", "the path names another execution");
        return Err(Refusal::invalid(vec![fault]));
    }
    let finish = checked(pull::finish(id, input, app.engine.now(), ""))?;
    finish_one(&app, finish).await
}

/// End attempts
///
/// At most 1000; each is judged alone, and gets the status that it would have got alone.
#[utoipa::path(post, path = "/internal/v1/executions/complete", tag = "Worker protocol",
    operation_id = "completeExecutions", request_body = CompleteBatchRequest,
    responses(
        (status = 200, description = "One result each, in the same order", body = CompleteBatchResponse),
        (status = 400, description = "Malformed", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Too many", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn complete_batch(State(app): State<App>, head: Head, body: AttemptsBody) -> Answer {
    head.params(&[])?;
    let text = body.text()?;
    let now = app.engine.now();
    // In one pass where all is well; otherwise one by one, so that a bad one does not take the others with it.
    let judged: Vec<Judged> = match read::<CompleteBatchInput<CompleteInput<'_>>>(text) {
        Ok(batch) => {
            bounded("/completions", batch.completions.len())?;
            batch.completions.into_iter().map(|input| judge(Ok(input), now)).collect()
        }
        Err(_) => {
            let batch: CompleteBatchInput<&RawValue> = parse(text)?;
            bounded("/completions", batch.completions.len())?;
            batch.completions.into_iter().map(|raw| judge(read(raw.get()), now)).collect()
        }
    };
    let (results, finishes): (Vec<_>, Vec<_>) = judged.into_iter().map(|one| (one.result, one.finish)).unzip();
    let finishes: Vec<Finish> = finishes.into_iter().flatten().collect();
    let verdicts = match finishes.is_empty() {
        true => Vec::new(),
        false => app.engine.finish(app.tenant(), finishes).await?,
    };
    let mut verdicts = verdicts.into_iter();
    let result = |mut result: CompleteResult| {
        if result.status == 0 {
            result = finished_result(result.id, verdicts.next().unwrap_or(Finishing::Gone));
        }
        result
    };
    let results = results.into_iter().map(result).collect();
    Ok(json(StatusCode::OK, &CompleteBatchResponse { results }))
}

/// One item of a batch: what goes to the engine, or a result at once. A status of 0 waits for the engine's.
struct Judged {
    result: CompleteResult,
    finish: Option<Finish>,
}

fn judge(input: Result<CompleteInput<'_>, Unreadable>, now: Timestamp) -> Judged {
    let result = |id: &str, status, error: Option<&str>| CompleteResult {
        id: id.chars().take(64).collect(),
        status,
        state: None,
        next_attempt_at: None,
        error: error.map(str::to_owned),
    };
    let refused = |id: &str, status, code: &str| Judged { result: result(id, status, Some(code)), finish: None };
    let input = match input {
        Ok(input) => input,
        Err(Unreadable::NotJson(_)) => return refused("", 400, "json_invalid"),
        Err(Unreadable::Fault(fault)) => return refused("", item_status(&fault), &fault.code),
    };
    let Some(id) = input.id.clone() else { return refused("", 422, "id_missing") };
    let Ok(execution) = id.parse() else { return refused(&id, 400, "invalid_id") };
    match pull::finish(execution, input, now, "") {
        Ok(finish) => Judged { result: result(&id, 0, None), finish: Some(finish) },
        Err(fault) => refused(&id, item_status(&fault), &fault.code),
    }
}

fn item_status(fault: &FieldProblem) -> u16 {
    Refusal::invalid(vec![fault.clone()]).status().as_u16()
}

fn finished_result(id: String, verdict: Finishing) -> CompleteResult {
    let (status, state, next_attempt_at, error) = match verdict {
        Finishing::Done { state, next_attempt_at } => (200, Some(state), next_attempt_at, None),
        Finishing::Stale { state } => (409, Some(state), None, Some("stale_fence")),
        Finishing::Gone => (404, None, None, Some("execution_not_found")),
    };
    CompleteResult {
        id,
        status,
        state: state.map(|state| state.as_str().to_owned()),
        next_attempt_at: next_attempt_at.map(|at| at.to_string()),
        error: error.map(str::to_owned),
    }
}

/// Give work back
///
/// What was claimed and never started. It waits again, and no attempt is used up.
#[utoipa::path(post, path = "/internal/v1/executions/{execution}/release", tag = "Worker protocol",
    operation_id = "releaseExecution", request_body = ReleaseRequest,
    params(("execution" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "Given back", body = CompleteResponse),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is not the worker's any more (`stale_fence`); `state` says how it is", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn release(
    State(app): State<App>,
    head: Head,
    Path(execution): Path<String>,
    body: ClaimBody,
) -> Answer {
    head.params(&[])?;
    let execution = execution_id(&execution)?;
    let input: ReleaseInput = parse(body.text()?)?;
    let worker = checked(input.worker_id.as_deref().map(pull::worker_id).transpose())?;
    let fence = checked(pull::known(input.fence_token, worker.is_some(), ""))?;
    let outcome = Outcome::Released;
    finish_one(&app, Finish { execution, fence, worker, outcome, duration_ms: None, logs: Vec::new() }).await
}

async fn finish_one(app: &App, finish: Finish) -> Answer {
    let id = finish.execution;
    match app.engine.finish(app.tenant(), vec![finish]).await?.pop() {
        Some(Finishing::Done { state, next_attempt_at }) => {
            let answer = CompleteResponse {
                execution_id: id.to_string(),
                state: state.as_str().to_owned(),
                next_attempt_at: next_attempt_at.map(|at| at.to_string()),
            };
            Ok(json(StatusCode::OK, &answer))
        }
        Some(Finishing::Stale { state }) => {
            let detail = format!("{id} is {} and not this attempt's any more", state.as_str());
            Err(Refusal::new(StatusCode::CONFLICT, "stale_fence", detail).with_state(state.as_str()))
        }
        Some(Finishing::Gone) | None => {
            Err(Refusal::new(StatusCode::NOT_FOUND, "execution_not_found", format!("no execution has the id {id}")))
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Refusal> {
    read(text).map_err(|why| match why {
        Unreadable::NotJson(error) => Refusal::bad_request("json_invalid", format!("the body is not JSON: {error}")),
        Unreadable::Fault(fault) => Refusal::invalid(vec![fault]),
    })
}

fn checked<T>(result: Result<T, FieldProblem>) -> Result<T, Refusal> {
    result.map_err(|fault| Refusal::invalid(vec![fault]))
}

fn bounded(pointer: &str, count: usize) -> Result<(), Refusal> {
    if count <= limits::PULL_ITEMS_MAX {
        return Ok(());
    }
    let message = format!("at most {} at once, got {count}", limits::PULL_ITEMS_MAX);
    Err(Refusal::invalid(vec![FieldProblem::new(pointer, "batch_too_large", message)]))
}
