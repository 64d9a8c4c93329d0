//! Operations: watch them, stop them.

use super::jobs::page_answer;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, json, located, operation_id};
use crate::{App, cursor};
use axum::extract::{Path, State};
use campanile_client::wire::{self, OperationProgress, OperationSpec, Page, Problem};
use campanile_engine::operate::{BackfillSpec, ReplaySpec, Reprocess, Terms, progress_of};
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::{Error, Kind, OperationId, Timestamp};
use http::StatusCode;

/// List operations
///
/// Newest first, in pages.
#[utoipa::path(get, path = "/v1/operations", tag = "Operations", operation_id = "listOperations",
    params(
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Operation>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_operations(State(app): State<App>, head: Head) -> Answer {
    const LIST: &str = "operations";
    let params = head.params(&["limit", "cursor"])?;
    let before = match params.get("cursor") {
        Some(text) => {
            let bytes: Result<[u8; 16], _> = cursor::decode(&app.cursor_key, LIST, text)?.try_into();
            let bytes = bytes.map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?;
            Some(OperationId::from_bytes(bytes))
        }
        None => None,
    };
    let found = app.engine.operations(app.tenant(), before, params.limit()?).await?;
    let last = found.items.last().filter(|_| found.has_more);
    let next_cursor = last.map(|operation| cursor::encode(&app.cursor_key, LIST, operation.id.as_bytes()));
    let data = found.items.iter().map(shown).collect::<Result<_, _>>()?;
    Ok(page_answer(&head, &Page { data, has_more: found.has_more, next_cursor }))
}

/// Get an operation
#[utoipa::path(get, path = "/v1/operations/{operation}", tag = "Operations", operation_id = "getOperation",
    params(("operation" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "The operation", body = wire::Operation),
        (status = 404, description = "There is no such operation", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_operation(State(app): State<App>, head: Head, Path(operation): Path<String>) -> Answer {
    head.params(&[])?;
    let found = app.engine.operation(app.tenant(), operation_id(&operation)?).await?;
    Ok(json(StatusCode::OK, &shown(&found)?))
}

/// Stop an operation
///
/// It starts nothing more. What it started goes on.
#[utoipa::path(post, path = "/v1/operations/{operation}/cancel", tag = "Operations", operation_id = "cancelOperation",
    params(("operation" = String, Path, description = "Id")),
    responses(
        (status = 202, description = "Stopped", body = wire::Operation),
        (status = 404, description = "There is no such operation", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It is over already (`operation_final`)", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel_operation(
    State(app): State<App>,
    head: Head,
    Path(operation): Path<String>,
    _: NoBody,
) -> Answer {
    head.params(&[])?;
    let cancelled = app.engine.cancel_operation(app.tenant(), operation_id(&operation)?).await?;
    Ok(json(StatusCode::ACCEPTED, &shown(&cancelled)?))
}

/// The answer to a request that became an operation.
pub(super) fn accepted_operation(operation: &Operation) -> Answer {
    let response = json(StatusCode::ACCEPTED, &shown(operation)?);
    Ok(located(response, format!("/v1/operations/{}", operation.id)))
}

fn shown(operation: &Operation) -> Result<wire::Operation, Error> {
    let progress = progress_of(operation)?;
    Ok(wire::Operation {
        id: operation.id.to_string(),
        kind: operation.kind.as_str().to_owned(),
        state: operation.state.as_str().to_owned(),
        is_final: operation.state != OperationState::Running,
        spec: spec_shown(operation)?,
        progress: OperationProgress {
            total: progress.total,
            started: progress.started,
            passed_over: progress.passed_over,
            succeeded: progress.succeeded,
            failed: progress.failed,
            open: progress.open.len() as u64,
            canary_over: progress.canary_over,
        },
        message: progress.message,
        created_at: operation.created_at.to_string(),
        updated_at: operation.updated_at.to_string(),
    })
}

fn spec_shown(operation: &Operation) -> Result<OperationSpec, Error> {
    let unreadable = |error| Error::new(Kind::Corrupt, format!("a stored operation cannot be read: {error}"));
    let instant = |ms: i64| Some(Timestamp::from_millis(ms).to_string());
    match operation.kind {
        OperationKind::Replay => {
            let spec: ReplaySpec = serde_json::from_str(&operation.spec).map_err(unreadable)?;
            let filter = spec.executions.is_empty().then_some(spec.filter);
            Ok(OperationSpec { executions: spec.executions, filter, ..terms_shown(&spec.terms) })
        }
        OperationKind::Backfill => {
            let spec: BackfillSpec = serde_json::from_str(&operation.spec).map_err(unreadable)?;
            let reprocess = match spec.reprocess {
                Reprocess::None => "NONE",
                Reprocess::Failed => "FAILED",
                Reprocess::All => "ALL",
            };
            Ok(OperationSpec {
                job_id: Some(spec.job),
                from: instant(spec.from_ms),
                to: instant(spec.to_ms),
                reprocess: Some(reprocess.to_owned()),
                ..terms_shown(&spec.terms)
            })
        }
    }
}

fn terms_shown(terms: &Terms) -> OperationSpec {
    OperationSpec {
        per_second: terms.per_second,
        max_parallel: terms.max_open.map(|max| max as u64),
        canary: terms.canary,
        stop_if_failing_percent: terms.stop_if_failing_percent,
        ..OperationSpec::default()
    }
}
