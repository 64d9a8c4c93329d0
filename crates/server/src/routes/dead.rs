//! Dead letters: executions whose attempts are used up, and what is done about them.

use super::executions::NOTE_BYTES_MAX;
use super::history::list;
use super::operations::accepted_operation;
use crate::problem::Refusal;
use crate::request::{Answer, Head, JobBody, faultless, json};
use crate::{App, convert};
use axum::extract::State;
use campanile_client::wire::input::{DiscardInput, Faults, ReplayInput};
use campanile_client::wire::{
    self, DeadPlan, DiscardRefusal, DiscardRequest, Discarded, FieldProblem, Page, Problem, ReplayRequest,
};
use campanile_engine::operate::{ReplaySpec, Terms};
use campanile_model::fingerprint;
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::store::{Applied, DeadGroup};
use campanile_model::{ExecutionId, limits};
use convert::Chosen;
use http::StatusCode;

/// List dead executions
///
/// Newest first, in pages; narrowed as any list of executions.
#[utoipa::path(get, path = "/v1/dead", tag = "Dead letters", operation_id = "listDead",
    params(
        ("q" = Option<String>, Query, description = "A filter, such as `job:nightly-* error:http_* scheduled:-24h..now`"),
        ("job" = Option<String>, Query, description = "Only of this job: id, or `name:` and a name"),
        ("pool" = Option<String>, Query, description = "Only of these pools, separated by commas"),
        ("tag" = Option<String>, Query, description = "Only of jobs with this tag"),
        ("handler" = Option<String>, Query, description = "Only of this handler, or done to this target"),
        ("fp" = Option<String>, Query, description = "Only with this fingerprint, or one that starts so"),
        ("from" = Option<String>, Query, description = "Only due at or after this: RFC 3339, a date, `now`, or `-2h`"),
        ("to" = Option<String>, Query, description = "Only due before this"),
        ("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before; only with the same filter")),
    responses(
        (status = 200, description = "A page", body = Page<wire::Execution>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The filter is wrong; `position` says where", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_dead(State(app): State<App>, head: Head) -> Answer {
    list(&app, &head, None, vec![ExecutionState::Dead]).await
}

/// List groups of dead executions
///
/// Those that died of the same thing, most recently grown first.
#[utoipa::path(get, path = "/v1/dead/groups", tag = "Dead letters", operation_id = "listDeadGroups",
    params(("limit" = Option<u32>, Query, description = "At most this many, 1 to 500; 50 where nothing is said")),
    responses(
        (status = 200, description = "The groups", body = Page<wire::DeadGroup>),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_dead_groups(State(app): State<App>, head: Head) -> Answer {
    let limit = head.params(&["limit"])?.limit()?;
    let mut groups = app.reads.dead_groups(app.tenant(), limit + 1).await?;
    let has_more = groups.len() > limit;
    groups.truncate(limit);
    let page = Page { data: groups.into_iter().map(shown).collect(), has_more, next_cursor: None };
    Ok(json(StatusCode::OK, &page))
}

fn shown(group: DeadGroup) -> wire::DeadGroup {
    wire::DeadGroup {
        fingerprint: fingerprint::show(group.fingerprint),
        target: group.target,
        kind: group.kind,
        message: group.message,
        count: group.count,
        first_at: group.first_at.to_string(),
        last_at: group.last_at.to_string(),
        sample: group.sample.to_string(),
    }
}

/// Run dead executions again
///
/// As an operation: with a rate, a canary that must be over before the rest starts, and a share of failures at which it
/// stops. With `dry_run`, only what it would be about is answered.
#[utoipa::path(post, path = "/v1/dead/replay", tag = "Dead letters", operation_id = "replayDead",
    request_body = ReplayRequest,
    params(("dry_run" = Option<bool>, Query, description = "Only show what would be done")),
    responses(
        (status = 202, description = "Accepted", body = wire::Operation,
            headers(("Location" = String, description = "The operation's address"))),
        (status = 200, description = "What it would be about, on a dry run", body = DeadPlan),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many operations are at work", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replay_dead(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let mut faults = Faults::default();
    let input = ReplayInput::read(body.text(), &mut faults);
    let mut read = convert::Reader::new(&input.pointers, &mut faults);
    let chosen = read.chosen(&input.selection, app.engine.now());
    let terms = terms(&mut read, &input);
    let spec = selected(&app, sure(faultless(chosen, faults)?)?, terms);
    if dry_run {
        return plan(&app, &spec).await;
    }
    let operation = app.engine.replay(app.tenant(), spec).await?;
    accepted_operation(&operation)
}

fn terms(read: &mut convert::Reader<'_>, input: &ReplayInput) -> Terms {
    let open_max = 1..=limits::OPERATION_OPEN_MAX as u64;
    let max_open = read.within("/max_parallel", "max_parallel_invalid", input.max_parallel, open_max.clone());
    Terms {
        per_second: read.rate(&input.rate),
        max_open: max_open.map(|max| max as usize),
        canary: read.within("/canary", "canary_invalid", input.canary, open_max),
        stop_if_failing_percent: read.percent("/stop_if_failing_percent", input.stop_if_failing_percent),
    }
}

/// What an operation works on. Only those that are dead by now: what dies again later is not meant.
fn selected(app: &App, chosen: Chosen, terms: Terms) -> ReplaySpec {
    let spec = ReplaySpec { terms, before_ms: app.engine.now().millis(), ..ReplaySpec::default() };
    match chosen {
        Chosen::Executions(ids) => ReplaySpec { executions: ids.iter().map(ExecutionId::to_string).collect(), ..spec },
        Chosen::Matching(filter) => ReplaySpec { filter: filter.to_string(), ..spec },
    }
}

/// What was chosen. Nothing must never be taken for everything.
fn sure(chosen: Option<Chosen>) -> Result<Chosen, Refusal> {
    chosen.ok_or_else(|| Refusal::invalid(vec![FieldProblem::new("", "selection_missing", "nothing was chosen")]))
}

async fn plan(app: &App, spec: &ReplaySpec) -> Answer {
    let (count, more, samples) = app.engine.preview_replay(app.tenant(), spec).await?;
    let samples = convert::executions(&app.engine, &samples);
    Ok(json(StatusCode::OK, &DeadPlan { dry_run: true, count, more, samples }))
}

/// Give dead executions up
///
/// They are `CANCELLED` from then on, with the reason as their note, and stay in the history. With `dry_run`, only what it
/// would be about is answered.
#[utoipa::path(post, path = "/v1/dead/discard", tag = "Dead letters", operation_id = "discardDead",
    request_body = DiscardRequest,
    params(("dry_run" = Option<bool>, Query, description = "Only show what would be done")),
    responses(
        (status = 200, description = "What was given up; or what it would be about, on a dry run", body = Discarded),
        (status = 422, description = "Not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn discard_dead(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    let dry_run = head.params(&["dry_run"])?.flag("dry_run")?;
    let mut faults = Faults::default();
    let input = DiscardInput::read(body.text(), &mut faults);
    let mut read = convert::Reader::new(&input.pointers, &mut faults);
    let chosen = read.chosen(&input.selection, app.engine.now());
    let reason = input.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_none() {
        read.refuse("/reason", "reason_missing", "say why: `reason` is kept with each of them");
    }
    read.check_note("/reason", reason, NOTE_BYTES_MAX);
    let (chosen, reason) = faultless((chosen, reason.unwrap_or_default()), faults)?;
    let chosen = sure(chosen)?;
    if dry_run {
        return plan(&app, &selected(&app, chosen, Terms::default())).await;
    }
    let discarded = match chosen {
        Chosen::Executions(ids) => discard(&app, ids, reason).await?,
        Chosen::Matching(filter) => {
            let discarded = app.engine.bury_matching(app.tenant(), filter, reason).await?;
            Discarded { discarded, refused: Vec::new() }
        }
    };
    Ok(json(StatusCode::OK, &discarded))
}

async fn discard(app: &App, ids: Vec<ExecutionId>, reason: &str) -> Result<Discarded, Refusal> {
    let verdicts = app.engine.bury(app.tenant(), ids.clone(), reason).await?;
    let mut answer = Discarded::default();
    for (id, verdict) in ids.into_iter().zip(verdicts) {
        let (code, state) = match verdict {
            Applied::Done => {
                answer.discarded += 1;
                continue;
            }
            Applied::Stale { state } => ("execution_not_dead", Some(state.as_str().to_owned())),
            Applied::Gone => ("execution_not_found", None),
        };
        answer.refused.push(DiscardRefusal { id: id.to_string(), code: code.to_owned(), state });
    }
    Ok(answer)
}
