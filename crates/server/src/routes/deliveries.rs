//! What was sent to webhook endpoints, and what came back.

use super::endpoints::known;
use super::jobs::page_answer;
use crate::problem::Refusal;
use crate::request::{Answer, Head, NoBody, json};
use crate::{App, cursor};
use axum::extract::{Path, State};
use campanile_client::wire::{self, Page, Problem};
use campanile_engine::notify::event_id;
use campanile_model::notify::{Delivery, DeliveryState};
use http::StatusCode;

/// List deliveries to a webhook endpoint
///
/// Newest first, in pages.
#[utoipa::path(get, path = "/v1/webhook-endpoints/{endpoint}/deliveries", tag = "Notifications",
    operation_id = "listDeliveries",
    params(
        ("endpoint" = String, Path, description = "Id"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Delivery>),
        (status = 404, description = "There is no such endpoint", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_deliveries(State(app): State<App>, head: Head, Path(endpoint): Path<String>) -> Answer {
    let params = head.params(&["limit", "cursor"])?;
    let limit = params.limit()?;
    let endpoint = known(&app, &endpoint).await?.id;
    let list = format!("deliveries {endpoint}");
    let before = match params.get("cursor") {
        Some(text) => {
            let bytes: Result<[u8; 8], _> = cursor::decode(&app.cursor_key, &list, text)?.try_into();
            let bytes = bytes.map_err(|_| Refusal::bad_request("cursor_invalid", "this is no cursor"))?;
            Some(u64::from_be_bytes(bytes))
        }
        None => None,
    };
    let found = app.reads.list_deliveries(app.tenant(), endpoint, before, limit).await?;
    let last = found.items.last().filter(|_| found.has_more).map(|delivery| delivery.seq);
    let page = Page {
        data: found.items.iter().map(shown).collect(),
        has_more: found.has_more,
        next_cursor: last.map(|seq| cursor::encode(&app.cursor_key, &list, &seq.to_be_bytes())),
    };
    Ok(page_answer(&head, &page))
}

/// Send a delivery again
///
/// From the first try on, under the same event id.
#[utoipa::path(post, path = "/v1/webhook-endpoints/{endpoint}/deliveries/{seq}/replay", tag = "Notifications",
    operation_id = "replayDelivery",
    params(
        ("endpoint" = String, Path, description = "Id"),
        ("seq" = u64, Path, description = "Its position")),
    responses(
        (status = 202, description = "It is sent again", body = wire::Delivery),
        (status = 404, description = "There is no such endpoint or delivery", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replay_delivery(
    State(app): State<App>,
    head: Head,
    Path((endpoint, seq)): Path<(String, String)>,
    _: NoBody,
) -> Answer {
    head.params(&[])?;
    let refused = |_| Refusal::bad_request("invalid_id", "a delivery is named by its `seq`, a whole number");
    let seq: u64 = seq.parse().map_err(refused)?;
    let endpoint = known(&app, &endpoint).await?.id;
    let missing =
        || Refusal::new(StatusCode::NOT_FOUND, "delivery_not_found", format!("no delivery has the seq {seq}"));
    if !app.engine.replay_delivery(app.tenant(), endpoint, seq).await? {
        return Err(missing());
    }
    let found = app.reads.list_deliveries(app.tenant(), endpoint, Some(seq.saturating_add(1)), 1).await?;
    let delivery = found.items.first().filter(|delivery| delivery.seq == seq).ok_or_else(missing)?;
    Ok(json(StatusCode::ACCEPTED, &shown(delivery)))
}

fn shown(delivery: &Delivery) -> wire::Delivery {
    wire::Delivery {
        seq: delivery.seq,
        event_id: event_id(delivery.seq),
        endpoint_id: delivery.endpoint.to_string(),
        event: delivery.kind.as_str().to_owned(),
        job_id: delivery.job.to_string(),
        execution_id: delivery.execution.map(|execution| execution.to_string()),
        at: delivery.at.to_string(),
        state: delivery.state.as_str().to_owned(),
        tries: delivery.tries,
        next_at: (delivery.state == DeliveryState::Waiting).then(|| delivery.next_at.to_string()),
        status: delivery.status,
        error: delivery.error.clone(),
        data: serde_json::from_str(&delivery.data).unwrap_or_default(),
    }
}
