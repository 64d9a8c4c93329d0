//! Schedules without a job.

use crate::App;
use crate::convert;
use crate::problem::Refusal;
use crate::request::{Answer, Head, JobBody, json};
use axum::extract::State;
use campanile_client::wire::input::{Faults, Fields, Pointers};
use campanile_client::wire::{
    ExplainedField, FieldProblem, Fire, Problem, ScheduleExplanation, SchedulePreview, ScheduleQuestion,
};
use campanile_model::job::Window;
use campanile_model::schedule::{self, HashSeed, Plan, Schedule};
use campanile_model::{TenantId, Timestamp, limits};
use http::StatusCode;

/// Fires in a preview where the question does not say how many.
const COUNT_DEFAULT: u64 = 10;

struct Question {
    schedule: Schedule,
    plan: Plan,
    window: Window,
    from: Timestamp,
    count: usize,
}

/// The coming fires of a schedule
///
/// Nothing is stored. Every fire comes with its local time, and with what a clock change did to it.
#[utoipa::path(post, path = "/v1/schedules:preview", tag = "Schedules", operation_id = "previewSchedule",
    request_body = ScheduleQuestion, responses(
    (status = 200, description = "The fires", body = SchedulePreview),
    (status = 422, description = "The schedule is not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn preview_schedule(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    head.params(&[])?;
    let question = read(&app, body.text())?;
    let preview = SchedulePreview {
        schedule: convert::schedule_shown(&question.schedule, &question.window),
        from: question.from.to_string(),
        fires: fires(&question, question.count),
    };
    Ok(json(StatusCode::OK, &preview))
}

/// What a schedule means
///
/// One sentence, its parts, how often it fires, and what is easily misread: the rule for days, clock changes of the coming
/// year, what `H` stands for.
#[utoipa::path(post, path = "/v1/schedules:explain", tag = "Schedules", operation_id = "explainSchedule",
    request_body = ScheduleQuestion, responses(
    (status = 200, description = "The meaning", body = ScheduleExplanation),
    (status = 422, description = "The schedule is not valid", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn explain_schedule(State(app): State<App>, head: Head, body: JobBody) -> Answer {
    head.params(&[])?;
    let question = read(&app, body.text())?;
    let meaning = schedule::explain(&question.schedule, &question.plan, question.from);
    let fields = meaning.fields.into_iter().map(|(name, value)| ExplainedField { name, value }).collect();
    let explanation = ScheduleExplanation {
        schedule: convert::schedule_shown(&question.schedule, &question.window),
        from: question.from.to_string(),
        words: meaning.words,
        fields,
        rate: meaning.rate,
        notes: meaning.notes,
        next_fires: fires(&question, question.count.min(5)),
    };
    Ok(json(StatusCode::OK, &explanation))
}

fn fires(question: &Question, count: usize) -> Vec<Fire> {
    let Window { starts_at, ends_at, max_fires } = question.window;
    let from = starts_at.map_or(question.from, |start| question.from.max(start.saturating_add_ms(-1)));
    let count = max_fires.map_or(count, |max| count.min(max as usize));
    let fires = schedule::preview(&question.schedule, &question.plan, from, count).into_iter();
    let fires = fires.take_while(|fire| ends_at.is_none_or(|end| fire.at <= end));
    fires.map(|fire| Fire { at: fire.at.to_string(), local: fire.local, note: fire.note }).collect()
}

fn read(app: &App, text: &str) -> Result<Question, Refusal> {
    let mut faults = Faults::default();
    let (sent, name, from, count, pointers) = Fields::question(text, &mut faults).into_question(&mut faults);
    let schedule = convert::schedule(&sent, &pointers, &mut faults);
    let window = convert::window(&sent, &pointers, &mut faults);
    let from = match from.as_deref().map(str::parse).transpose() {
        Ok(from) => from.unwrap_or_else(|| app.engine.now()),
        Err(error) => {
            faults.add(FieldProblem::new(pointers.sent("/from"), "instant_invalid", format!("{error}")));
            Timestamp::MIN
        }
    };
    let count = count.unwrap_or(COUNT_DEFAULT);
    if !(1..=limits::PREVIEW_FIRES_MAX as u64).contains(&count) {
        let message = format!("count must be 1 to {}, got {count}", limits::PREVIEW_FIRES_MAX);
        faults.add(FieldProblem::new(pointers.sent("/count"), "count_invalid", message));
    }
    let plan = schedule.as_ref().and_then(|schedule| resolve(schedule, name, from, &pointers, &mut faults));
    match (schedule, plan, window) {
        (Some(schedule), Some(plan), Some(window)) if faults.is_empty() => {
            Ok(Question { schedule, plan, window, from, count: count as usize })
        }
        _ => Err(Refusal::invalid(faults.into_vec())),
    }
}

fn resolve(
    schedule: &Schedule,
    name: Option<String>,
    from: Timestamp,
    pointers: &Pointers,
    faults: &mut Faults,
) -> Option<Plan> {
    if *schedule == Schedule::None {
        faults.add(FieldProblem::new("/schedule", "schedule_missing", "there is no schedule to ask about"));
        return None;
    }
    let seed = HashSeed { tenant: TenantId::DEFAULT_NAME, job: name.as_deref().unwrap_or_default() };
    match schedule.resolve(seed, from) {
        Ok(plan) => Some(plan),
        Err(error) => {
            let canonical = match schedule {
                _ if error.code.starts_with("zone") => "/schedule/timezone",
                Schedule::Cron { .. } => "/schedule/cron",
                Schedule::Every { .. } => "/schedule/every",
                Schedule::At { .. } => "/schedule/at",
                Schedule::After { .. } | Schedule::None => "/schedule/after",
            };
            let pointer = pointers.sent(canonical);
            let (code, message) = (error.code.to_owned(), error.message);
            faults.add(FieldProblem { pointer, code, message, hint: error.hint, position: error.position });
            None
        }
    }
}
