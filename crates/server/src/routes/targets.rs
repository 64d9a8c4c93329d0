//! Targets: whom actions are done to, and what they can bear.

use crate::App;
use crate::convert::Reader;
use crate::problem::Refusal;
use crate::request::{Answer, Head, SmallBody, faultless, json};
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use campanile_client::wire::input::{Faults, TargetInput};
use campanile_client::wire::{FieldProblem, Page, Problem, Target, TargetSpec};
use campanile_model::capacity::{Capacity, Scope};
use http::StatusCode;
use std::collections::BTreeMap;

/// Longest name of a target: the origin of a URL with the longest host, in bytes.
const NAME_BYTES_MAX: usize = 300;

/// List targets
///
/// By name: those that have limits, and those that this node has something to say about.
#[utoipa::path(get, path = "/v1/targets", tag = "Targets", operation_id = "listTargets",
    responses((status = 200, description = "The targets", body = Page<Target>)))]
pub(super) async fn list_targets(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let data = targets(&app).await?.into_values().collect();
    Ok(json(StatusCode::OK, &Page { data, has_more: false, next_cursor: None }))
}

/// Set the limits of a target
///
/// All of them. A target is a worker's handler, or the origin of a URL such as `https://example.com` (escaped, in the
/// address: `https:%2F%2Fexample.com`). They hold when the answer comes, on each node by itself.
#[utoipa::path(put, path = "/v1/targets/{target}", tag = "Targets", operation_id = "putTarget", request_body = TargetSpec,
    params(("target" = String, Path, description = "Name, escaped")),
    responses(
        (status = 200, description = "The target", body = Target),
        (status = 409, description = "There are too many pools and targets with limits", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn put_target(
    State(app): State<App>,
    head: Head,
    Path(target): Path<String>,
    body: SmallBody,
) -> Answer {
    head.params(&[])?;
    check_name(&target)?;
    let mut faults = Faults::default();
    let input = TargetInput::read(body.text(), &mut faults);
    let mut read = Reader::new(&input.pointers, &mut faults);
    let slots = read.within("/slots", "slots_invalid", input.slots, 1..=u64::from(u32::MAX));
    let per_second = read.rate(&input.rate);
    let (slots, per_second) = faultless((slots, per_second), faults)?;
    let known = app.engine.capacities(app.tenant(), Scope::Target).await?;
    let paused = known.iter().any(|known| known.name == target && known.paused);
    let capacity = Capacity {
        tenant: app.tenant(),
        scope: Scope::Target,
        name: target.clone(),
        slots: slots.map(|slots| slots as u32),
        per_second_milli: per_second.map(|rate| (rate * 1_000.0).round() as u64),
        paused,
        updated_at: app.engine.now(),
    };
    app.engine.put_capacity(capacity).await?;
    let shown = targets(&app).await?.remove(&target).unwrap_or_default();
    Ok(json(StatusCode::OK, &Target { name: target, ..shown }))
}

/// Forget the limits of a target
#[utoipa::path(delete, path = "/v1/targets/{target}", tag = "Targets", operation_id = "deleteTarget",
    params(("target" = String, Path, description = "Name, escaped")),
    responses(
        (status = 204, description = "Forgotten"),
        (status = 404, description = "It has none", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn delete_target(State(app): State<App>, head: Head, Path(target): Path<String>) -> Answer {
    head.params(&[])?;
    match app.engine.delete_capacity(app.tenant(), Scope::Target, &target).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Refusal::new(StatusCode::NOT_FOUND, "target_not_found", "no limits are known of this target")),
    }
}

/// All targets by name: their limits, and what this node knows.
async fn targets(app: &App) -> Result<BTreeMap<String, Target>, Refusal> {
    let mut targets: BTreeMap<String, Target> = BTreeMap::new();
    for capacity in app.engine.capacities(app.tenant(), Scope::Target).await? {
        let target = Target {
            name: capacity.name.clone(),
            slots: capacity.slots,
            per_second: capacity.per_second_milli.map(|milli| milli as f64 / 1_000.0),
            updated_at: Some(capacity.updated_at.to_string()),
            ..Target::default()
        };
        targets.insert(capacity.name, target);
    }
    for status in app.engine.targets(app.tenant()) {
        let target = targets.entry(status.name.to_string()).or_default();
        target.name = status.name.to_string();
        target.running = status.running as u64;
        target.waiting = status.waiting as u64;
        target.circuit_open = status.open;
    }
    Ok(targets)
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    if fits && !name.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Ok(());
    }
    let message = format!("a target's name has 1 to {NAME_BYTES_MAX} bytes, no blanks and no control characters");
    Err(Refusal::invalid(vec![FieldProblem::new("", "target_invalid", message)]))
}
