//! Webhook endpoints: who wants to hear of what.

use super::jobs::find;
use crate::App;
use crate::convert::Reader;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, SmallBody, endpoint_id, faultless, job_key, json, located};
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use campanile_client::wire::input::{EndpointInput, Faults};
use campanile_client::wire::{FieldProblem, Page, Problem, WebhookEndpoint, WebhookEndpointSpec};
use campanile_model::notify::{Endpoint, EventKind};
use campanile_model::{EndpointId, limits};
use http::StatusCode;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// List webhook endpoints
#[utoipa::path(get, path = "/v1/webhook-endpoints", tag = "Notifications", operation_id = "listWebhookEndpoints",
    responses((status = 200, description = "All of them", body = Page<WebhookEndpoint>)))]
pub(super) async fn list_endpoints(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let endpoints = app.engine.endpoints(app.tenant()).await?;
    let page = Page { data: endpoints.iter().map(shown).collect(), has_more: false, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

/// Create a webhook endpoint
///
/// From now on, events of these kinds go there: CloudEvents 1.0 by POST, signed, and tried until they are taken.
#[utoipa::path(post, path = "/v1/webhook-endpoints", tag = "Notifications", operation_id = "createWebhookEndpoint",
    request_body = WebhookEndpointSpec,
    responses(
        (status = 201, description = "Created", body = WebhookEndpoint,
            headers(("Location" = String, description = "Its address"))),
        (status = 404, description = "There is no such job", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There are too many", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create_endpoint(State(app): State<App>, head: Head, body: SmallBody) -> Answer {
    head.params(&[])?;
    let endpoint = read(&app, body.text(), None).await?;
    let endpoint = app.engine.put_endpoint(endpoint).await?;
    let response = json(StatusCode::CREATED, &shown(&endpoint));
    Ok(located(response, format!("/v1/webhook-endpoints/{}", endpoint.id)))
}

/// Get a webhook endpoint
#[utoipa::path(get, path = "/v1/webhook-endpoints/{endpoint}", tag = "Notifications", operation_id = "getWebhookEndpoint",
    params(("endpoint" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "The endpoint", body = WebhookEndpoint),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get_endpoint(State(app): State<App>, head: Head, Path(endpoint): Path<String>) -> Answer {
    head.params(&[])?;
    Ok(json(StatusCode::OK, &shown(&known(&app, &endpoint).await?)))
}

/// Replace a webhook endpoint
#[utoipa::path(put, path = "/v1/webhook-endpoints/{endpoint}", tag = "Notifications",
    operation_id = "replaceWebhookEndpoint", request_body = WebhookEndpointSpec,
    params(("endpoint" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "Replaced", body = WebhookEndpoint),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replace_endpoint(
    State(app): State<App>,
    head: Head,
    Path(endpoint): Path<String>,
    body: SmallBody,
) -> Answer {
    head.params(&[])?;
    let old = known(&app, &endpoint).await?;
    let endpoint = read(&app, body.text(), Some(old)).await?;
    Ok(json(StatusCode::OK, &shown(&app.engine.put_endpoint(endpoint).await?)))
}

/// Delete a webhook endpoint
///
/// What waits for it is forgotten.
#[utoipa::path(delete, path = "/v1/webhook-endpoints/{endpoint}", tag = "Notifications",
    operation_id = "deleteWebhookEndpoint",
    params(("endpoint" = String, Path, description = "Id")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn delete_endpoint(State(app): State<App>, head: Head, Path(endpoint): Path<String>) -> Answer {
    head.params(&[])?;
    let id = endpoint_id(&endpoint)?;
    match app.engine.delete_endpoint(app.tenant(), id).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(no_endpoint(id)),
    }
}

/// Pause a webhook endpoint
///
/// Nothing is sent until it is resumed; events are kept.
#[utoipa::path(post, path = "/v1/webhook-endpoints/{endpoint}/pause", tag = "Notifications",
    operation_id = "pauseWebhookEndpoint",
    params(("endpoint" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "Paused", body = WebhookEndpoint),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn pause_endpoint(
    State(app): State<App>,
    head: Head,
    Path(endpoint): Path<String>,
    _: NoBody,
) -> Answer {
    set_paused(&app, &head, &endpoint, true).await
}

/// Resume a webhook endpoint
#[utoipa::path(post, path = "/v1/webhook-endpoints/{endpoint}/resume", tag = "Notifications",
    operation_id = "resumeWebhookEndpoint",
    params(("endpoint" = String, Path, description = "Id")),
    responses(
        (status = 200, description = "Resumed", body = WebhookEndpoint),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn resume_endpoint(
    State(app): State<App>,
    head: Head,
    Path(endpoint): Path<String>,
    _: NoBody,
) -> Answer {
    set_paused(&app, &head, &endpoint, false).await
}

async fn set_paused(app: &App, head: &Head, endpoint: &str, paused: bool) -> Answer {
    head.params(&[])?;
    let old = known(app, endpoint).await?;
    Ok(json(StatusCode::OK, &shown(&app.engine.put_endpoint(Endpoint { paused, ..old }).await?)))
}

/// The endpoint with this id.
pub(super) async fn known(app: &App, text: &str) -> Result<Endpoint, Refusal> {
    let id = endpoint_id(text)?;
    let all = app.engine.endpoints(app.tenant()).await?;
    all.into_iter().find(|endpoint| endpoint.id == id).ok_or_else(|| no_endpoint(id))
}

fn no_endpoint(id: EndpointId) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "endpoint_not_found", format!("no endpoint has the id {id}"))
}

/// The endpoint that was sent, new or in the place of an old one.
async fn read(app: &App, text: &str, old: Option<Endpoint>) -> Result<Endpoint, Refusal> {
    let mut faults = Faults::default();
    let input = EndpointInput::read(text, &mut faults);
    let mut read = Reader::new(&input.pointers, &mut faults);
    match input.url.as_deref() {
        None => read.missing("/url", "say where events go: `url`"),
        Some(url) if url.len() > URL_BYTES_MAX => {
            read.refuse("/url", "url_invalid", format!("a URL has at most {URL_BYTES_MAX} bytes"));
        }
        Some(_) => {}
    }
    let events = events(&mut read, &input);
    let fits = |tag: &str| (1..=limits::TAG_BYTES_MAX).contains(&tag.len()) && !tag.contains(char::is_control);
    if input.tag.as_deref().is_some_and(|tag| !fits(tag)) {
        let message = format!("a tag has 1 to {} bytes and no control characters", limits::TAG_BYTES_MAX);
        read.refuse("/tag", "tag_invalid", message);
    }
    let events = faultless(events, faults)?;
    let job = match &input.job {
        Some(text) => Some(find(app, &job_key(text)?).await?.id),
        None => None,
    };
    Ok(Endpoint {
        id: old.as_ref().map_or_else(|| app.engine.new_endpoint_id(), |old| old.id),
        tenant: app.tenant(),
        url: input.url.unwrap_or_default(),
        events,
        job,
        tag: input.tag,
        paused: input.paused.unwrap_or(old.as_ref().is_some_and(|old| old.paused)),
        created_at: old.map_or_else(|| app.engine.now(), |old| old.created_at),
    })
}

/// The kinds of events, once each, in the order of their codes.
fn events(read: &mut Reader<'_>, input: &EndpointInput) -> Vec<EventKind> {
    let all = EventKind::ALL.map(EventKind::as_str).join(", ");
    if input.events.is_empty() {
        read.missing("/events", &format!("say what it wants to hear of: `events`, of {all}"));
    }
    let mut events = Vec::new();
    for (i, word) in input.events.iter().enumerate() {
        let plain = word.trim().to_ascii_lowercase();
        let plain = plain.strip_prefix("execution.").unwrap_or(&plain);
        match EventKind::ALL.into_iter().find(|kind| kind.as_str() == plain) {
            Some(kind) => events.push(kind),
            None => {
                let shown: String = word.chars().take(64).flat_map(char::escape_debug).collect();
                read.refuse_with(
                    FieldProblem::new(format!("/events/{i}"), "event_invalid", format!("there is no event `{shown}`"))
                        .hint(format!("one of {all}")),
                );
            }
        }
    }
    events.sort_unstable();
    events.dedup();
    events
}

fn shown(endpoint: &Endpoint) -> WebhookEndpoint {
    WebhookEndpoint {
        id: endpoint.id.to_string(),
        url: endpoint.url.clone(),
        events: endpoint.events.iter().map(|kind| kind.as_str().to_owned()).collect(),
        job_id: endpoint.job.map(|job| job.to_string()),
        tag: endpoint.tag.clone(),
        paused: endpoint.paused,
        created_at: endpoint.created_at.to_string(),
    }
}
