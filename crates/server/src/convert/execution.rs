//! Executions, their attempts, and fires that became none: what is stored into what is shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use campanile_client::wire;
use campanile_engine::Handle;
use campanile_model::action::{ActionKind, Runner};
use campanile_model::execution::{Attempt, AttemptError, Execution, LogLine, Progress, Reason, Response};
use campanile_model::fingerprint;
use campanile_model::lifecycle::State;
use campanile_model::store::Skip;
use std::collections::HashMap;

/// An execution, as shown.
pub fn execution(engine: &Handle, execution: &Execution) -> wire::Execution {
    shown(execution, waits_for(engine, execution, &mut HashMap::new()))
}

/// Executions, as shown.
pub fn executions<'a>(engine: &Handle, executions: impl IntoIterator<Item = &'a Execution>) -> Vec<wire::Execution> {
    let mut serving = HashMap::new();
    executions.into_iter().map(|one| shown(one, waits_for(engine, one, &mut serving))).collect()
}

/// Whether anybody takes executions of a pool and handler, by both; asked once for a page.
type Serving<'a> = HashMap<(&'a str, &'a str), bool>;

/// Why an execution that could run does not, where that is not recorded with it.
fn waits_for<'a>(engine: &Handle, execution: &'a Execution, serving: &mut Serving<'a>) -> Option<Reason> {
    let waits = matches!(execution.state, State::Pending | State::Retrying) && execution.wake_at <= engine.now();
    if !waits || execution.action.runner() != Runner::Worker {
        return None;
    }
    let (pool, handler) = (&*execution.pool, &*execution.target);
    let served = *serving.entry((pool, handler)).or_insert_with(|| engine.serving(pool, handler) > 0);
    (!served).then_some(Reason::NoWorker)
}

fn shown(execution: &Execution, waits_for: Option<Reason>) -> wire::Execution {
    let (id, state) = (execution.id.to_string(), execution.state.as_str().to_owned());
    let fire_at = execution.fire_at.to_string();
    let target = Some(execution.target.to_string()).filter(|target| !target.is_empty());
    wire::Execution {
        execution_id: id.clone(),
        id,
        job_id: execution.job.to_string(),
        job_name: execution.job_name.clone(),
        job_version: execution.job_version,
        scheduled_at: fire_at.clone(),
        fire_at,
        kind: execution.kind.as_str().to_owned(),
        status: state.clone(),
        state,
        is_final: execution.state.is_final(),
        reason: execution.reason.or(waits_for).map(|reason| reason.as_str().to_owned()),
        attempt: execution.attempt,
        fence_token: execution.fence,
        priority: execution.priority.as_str().to_owned(),
        pool: execution.pool.to_string(),
        action: execution.action.as_str().to_owned(),
        handler: target.clone().filter(|_| execution.action == ActionKind::Worker),
        target,
        overlap: execution.overlap.as_str().to_owned(),
        covers_from: execution.covers_from.map(|at| at.to_string()),
        fired_at: execution.fired_at.to_string(),
        queued_at: execution.queued_at.map(|at| at.to_string()),
        claimed_at: execution.claimed_at.map(|at| at.to_string()),
        first_started_at: execution.first_start().map(|at| at.to_string()),
        started_at: execution.started_at.map(|at| at.to_string()),
        finished_at: execution.finished_at.map(|at| at.to_string()),
        late_ms: execution.first_start().map(|at| at.ms_since(execution.fire_at)),
        lateness: lateness(execution),
        duration_ms: execution.started_at.zip(execution.finished_at).map(|(from, to)| to.ms_since(from)),
        next_attempt_at: (execution.state == State::Retrying).then(|| execution.wake_at.to_string()),
        worker: execution.worker.clone(),
        outcome: execution.outcome.map(|outcome| outcome.as_str().to_owned()),
        error: execution.error.as_ref().map(error_shown),
        fingerprint: execution.fingerprint.map(fingerprint::show),
        deliveries: execution.deliveries,
        cancel_requested_at: execution.cancel_requested_at.map(|at| at.to_string()),
        note: execution.note.clone(),
        progress: None,
    }
}

/// Where the time between due and the first start went. Later attempts take the place of what is known about the first.
fn lateness(execution: &Execution) -> Option<wire::LatenessSplit> {
    if execution.first_started_at.is_some() {
        return None;
    }
    let (queued, claimed, started) = (execution.queued_at?, execution.claimed_at?, execution.started_at?);
    Some(wire::LatenessSplit {
        scheduler_ms: queued.ms_since(execution.fire_at),
        queue_ms: claimed.ms_since(queued),
        worker_ms: started.ms_since(claimed),
    })
}

/// What an attempt told about itself, as shown.
pub fn progress(progress: &Progress) -> wire::Progress {
    wire::Progress {
        fraction: progress.fraction,
        message: progress.message.clone(),
        at: progress.at.to_string(),
        checkpoint: progress.checkpoint.as_deref().and_then(|text| serde_json::from_str(text).ok()),
    }
}

/// A line of a log at its position, as shown.
pub fn log_entry(seq: u64, line: LogLine) -> wire::LogEntry {
    wire::LogEntry { seq, at: line.at.to_string(), level: line.level, message: line.message }
}

/// An attempt, as shown.
pub fn attempt(attempt: &Attempt) -> wire::Attempt {
    wire::Attempt {
        attempt: attempt.number,
        fence_token: attempt.fence,
        worker: attempt.worker.clone(),
        started_at: attempt.started_at.to_string(),
        finished_at: attempt.finished_at.map(|at| at.to_string()),
        duration_ms: attempt.finished_at.map(|at| at.ms_since(attempt.started_at)),
        outcome: attempt.outcome.map(|outcome| outcome.as_str().to_owned()),
        error: attempt.error.as_ref().map(error_shown),
        response: attempt.response.as_ref().map(response_shown),
    }
}

fn error_shown(error: &AttemptError) -> wire::AttemptError {
    wire::AttemptError { kind: error.kind.clone(), message: error.message.clone() }
}

fn response_shown(response: &Response) -> wire::Response {
    let (body, encoding) = match text_of(&response.body, response.truncated) {
        Some(text) => (text.to_owned(), "TEXT"),
        None => (STANDARD.encode(&response.body), "BASE64"),
    };
    let (status, truncated) = (response.status, response.truncated);
    wire::Response { status, body, body_encoding: encoding.to_owned(), truncated }
}

/// The body as text, if it is. One that was cut may end within a character.
pub(super) fn text_of(body: &[u8], truncated: bool) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// A skip, as shown.
pub fn skip(skip: &Skip) -> wire::Skip {
    wire::Skip {
        job_id: skip.job.to_string(),
        from: skip.from.to_string(),
        to: skip.to.to_string(),
        reason: skip.reason.as_str().to_owned(),
        recorded_at: skip.recorded_at.to_string(),
    }
}
