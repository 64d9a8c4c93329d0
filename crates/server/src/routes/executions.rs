//! One execution: read it, its attempts and its log; cancel it, run it again.

use super::runs::accepted_execution;
use crate::limits::WAIT_MAX;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, OptionalBody, execution_id, faultless, json};
use crate::{App, convert};
use axum::extract::{Path, State};
use campanile_client::wire::input::{CancelInput, Faults};
use campanile_client::wire::{self, CancelRequest, Logs, Page, Problem};
use campanile_engine::Cancel;
use campanile_model::execution::Execution;
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::store::Applied;
use campanile_model::{ExecutionId, limits};
use http::StatusCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often an execution that is waited for is looked at: at first, and at last.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));
/// Longest note on a cancel or discard, in bytes.
pub(super) const NOTE_BYTES_MAX: usize = 1_000;

/// Get an execution
///
/// With what its running or last attempt told about itself. With `wait`, the answer comes when it is over, or after that
/// time as it is then.
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
    let progress = match found.started_at {
        Some(_) => app.reads.reports(app.tenant(), id, 0, 0).await?.progress,
        None => None,
    };
    let progress = progress.as_ref().map(convert::progress);
    Ok(json(StatusCode::OK, &wire::Execution { progress, ..convert::execution(&app.engine, &found) }))
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
    let attempts = app.reads.list_attempts(app.tenant(), id).await?;
    let page = Page { data: attempts.iter().map(convert::attempt).collect(), has_more: false, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

/// Read the log of an execution
///
/// What its attempts logged, in the order of arrival. `next_after` goes on behind the last line, also when there are no more
/// yet.
#[utoipa::path(get, path = "/v1/executions/{execution}/logs", tag = "Executions", operation_id = "listLogs",
    params(
        ("execution" = String, Path, description = "Id"),
        ("after" = Option<u64>, Query, description = "Only behind this position"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said")),
    responses(
        (status = 200, description = "The lines", body = Logs),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_logs(State(app): State<App>, head: Head, Path(execution): Path<String>) -> Answer {
    let params = head.params(&["after", "limit"])?;
    let (after, limit) = (params.count("after")?.unwrap_or_default(), params.limit()?);
    let id = execution_id(&execution)?;
    find(&app, id).await?;
    let mut lines = app.reads.reports(app.tenant(), id, after, limit + 1).await?.logs;
    let has_more = lines.len() > limit;
    lines.truncate(limit);
    let next_after = lines.last().map_or(after, |(seq, _)| *seq);
    let data = lines.into_iter().map(|(seq, line)| convert::log_entry(seq, line)).collect();
    Ok(json(StatusCode::OK, &Logs { data, has_more, next_after }))
}

/// Cancel an execution
///
/// Acknowledged before it starts, it never starts. A running attempt of a worker is asked to stop with its next heartbeat,
/// and loses its lease after `grace_ms`; one of the server itself ends at once. If it says within that time that it
/// succeeded, it succeeded; however else it ends, it is not tried again.
#[utoipa::path(post, path = "/v1/executions/{execution}/cancel", tag = "Executions", operation_id = "cancelExecution",
    request_body(content = Option<CancelRequest>, content_type = "application/json"),
    params(
        ("execution" = String, Path, description = "Id"),
        ("dry_run" = Option<bool>, Query, description = "Only check"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request happen once")),
    responses(
        (status = 202, description = "Cancelled, or asked to stop", body = wire::Execution),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over already (`execution_final`); `state` says how", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel_execution(
    State(app): State<App>,
    head: Head,
    Path(execution): Path<String>,
    body: OptionalBody,
) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let id = execution_id(&execution)?;
    let (at, cancel) = read_cancel(&head, body.text())?;
    if at.is_some() {
        return Err(Refusal::bad_request("field_unknown", "`at` belongs to /v1/jobs/{job}/fires/cancel"));
    }
    if dry_run {
        let found = find(&app, id).await?;
        return match found.state.is_final() {
            true => Err(is_over(id, found.state)),
            false => Ok(json(StatusCode::OK, &convert::execution(&app.engine, &found))),
        };
    }
    match app.engine.cancel(app.tenant(), id, cancel).await {
        Ok((cancelled, was_replayed)) => Ok(accepted_execution(&app, &cancelled, was_replayed)),
        Err(error) => Err(refused_cancel(&app, id, error).await),
    }
}

/// How to cancel, and which fire where one is named.
pub(super) fn read_cancel(head: &Head, text: &str) -> Result<(Option<String>, Cancel), Refusal> {
    let (_, caller_key) = head.conditions()?;
    let mut faults = Faults::default();
    let input = CancelInput::read(text, &mut faults);
    let mut read = convert::Reader::new(&input.pointers, &mut faults);
    let grace_ms = read.duration_up_to("/grace_ms", &input.grace, limits::TIMEOUT_MS_MAX);
    read.check_note("/note", input.note.as_deref(), NOTE_BYTES_MAX);
    faultless((), faults)?;
    let grace_ms = match grace_ms {
        Some(0) => None,
        Some(ms) => Some(ms),
        None => Cancel::default().grace_ms,
    };
    Ok((input.at, Cancel { grace_ms, note: input.note, caller_key }))
}

/// The refusal of a cancel, with the state that the execution is in.
pub(super) async fn refused_cancel(app: &App, id: ExecutionId, error: campanile_model::Error) -> Refusal {
    if error.code() != "execution_final" {
        return error.into();
    }
    match find(app, id).await {
        Ok(found) => is_over(id, found.state),
        Err(refusal) => refusal,
    }
}

/// Run a dead execution again
///
/// At once, with a new set of attempts; those so far are kept. For many there is `/v1/dead/replay`.
#[utoipa::path(post, path = "/v1/executions/{execution}/replay", tag = "Executions", operation_id = "replayExecution",
    params(
        ("execution" = String, Path, description = "Id"),
        ("dry_run" = Option<bool>, Query, description = "Only check")),
    responses(
        (status = 202, description = "It waits to run", body = wire::Execution),
        (status = 404, description = "There is no such execution", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is not dead (`execution_not_dead`); `state` says how it is", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replay_execution(
    State(app): State<App>,
    head: Head,
    Path(execution): Path<String>,
    _: NoBody,
) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let id = execution_id(&execution)?;
    if dry_run {
        let found = find(&app, id).await?;
        return match found.state {
            ExecutionState::Dead => Ok(json(StatusCode::OK, &convert::execution(&app.engine, &found))),
            state => Err(not_dead(id, state)),
        };
    }
    match app.engine.replay_now(app.tenant(), vec![id]).await?.pop() {
        Some(Applied::Done) => Ok(accepted_execution(&app, &find(&app, id).await?, false)),
        Some(Applied::Stale { state }) => Err(not_dead(id, state)),
        Some(Applied::Gone) | None => {
            Err(Refusal::new(StatusCode::NOT_FOUND, "execution_not_found", format!("no execution has the id {id}")))
        }
    }
}

fn is_over(id: ExecutionId, state: ExecutionState) -> Refusal {
    let detail = format!("{id} is {} already", state.as_str());
    Refusal::new(StatusCode::CONFLICT, "execution_final", detail).with_state(state.as_str())
}

fn not_dead(id: ExecutionId, state: ExecutionState) -> Refusal {
    let detail = format!("{id} is {}, and only a dead one is run again", state.as_str());
    Refusal::new(StatusCode::CONFLICT, "execution_not_dead", detail).with_state(state.as_str())
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
        tokio::select! {
            () = sleep(pause.min(left)) => {}
            () = app.options.stopping.begun() => return Ok(found),
        }
        pause = (pause * 3 / 2).min(LOOK_EVERY.1);
    }
}
