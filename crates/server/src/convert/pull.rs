//! The worker protocol: what workers send into what the engine takes, within bounds.

use campanile_client::wire::input::worker::{
    BeatInput, ClaimInput, CompleteInput, CompleteStatus, ErrorInput, LogInput,
};
use campanile_client::wire::{self, FieldProblem, json};
use campanile_engine::run::pull::{Beat, Finish, Pulled};
use campanile_engine::workers::{Directive, Introduction};
use campanile_model::action::NODE_PREFIX;
use campanile_model::execution::{AttemptError, LogLine, Outcome, Progress, Response};
use campanile_model::{ExecutionId, Timestamp, limits};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Longest kind of an error, and longest level of a line, in bytes.
const WORD_BYTES_MAX: (usize, usize) = (200, 16);
/// Longest description of what a worker is made with, in bytes.
const SDK_BYTES_MAX: usize = 100;
/// Deepest nesting of a checkpoint or result. They travel inside of answers, which readers bound too.
const DEPTH_MAX: usize = 100;
/// By how much sums of fractions may miss 0 and 1.
const PROGRESS_SLACK: f64 = 0.01;

type Checked<T> = Result<T, FieldProblem>;

fn fault<T>(pointer: impl Into<String>, code: &str, message: impl Into<String>) -> Checked<T> {
    Err(FieldProblem::new(pointer, code, message))
}

/// The name of a worker.
pub(crate) fn worker_id(text: &str) -> Checked<Arc<str>> {
    let fits = (1..=limits::WORKER_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    match fits && !text.starts_with(NODE_PREFIX) {
        true => Ok(text.into()),
        false => {
            let max = limits::WORKER_BYTES_MAX;
            let message =
                format!("worker_id has 1 to {max} bytes, no control characters, and does not start with `node:`");
            fault("/worker_id", "worker_id_invalid", message)
        }
    }
}

/// Who wants work, checked.
pub(crate) fn introduction(input: ClaimInput) -> Checked<Introduction> {
    if !(1..=limits::PULL_ITEMS_MAX as u64).contains(&input.capacity) {
        let message = format!("capacity must be 1 to {}, got {}", limits::PULL_ITEMS_MAX, input.capacity);
        return fault("/capacity", "capacity_invalid", message);
    }
    Ok(Introduction {
        worker: worker_id(&input.worker_id)?,
        pools: names("/pools", input.pools)?,
        handlers: names("/handlers", input.handlers)?,
        sdk: input.sdk.map(|sdk| cut(sdk, SDK_BYTES_MAX)),
        capacity: input.capacity as usize,
    })
}

fn names(pointer: &str, names: Option<Vec<String>>) -> Checked<Vec<Arc<str>>> {
    let names = names.unwrap_or_default();
    if names.len() > limits::WORKER_NAMES_MAX {
        let message = format!("at most {} of them, got {}", limits::WORKER_NAMES_MAX, names.len());
        return fault(pointer, "worker_names_invalid", message);
    }
    if let Some(i) = names.iter().position(|name| !(1..=limits::NAME_BYTES_MAX).contains(&name.len())) {
        let message = format!("a name has 1 to {} bytes", limits::NAME_BYTES_MAX);
        return fault(format!("{pointer}/{i}"), "worker_names_invalid", message);
    }
    Ok(names.into_iter().map(Arc::from).collect())
}

/// A heartbeat of one execution, checked; `at` is its place in the request.
pub(crate) fn beat(execution: ExecutionId, input: BeatInput<'_>, now: Timestamp, at: &str) -> Checked<Beat> {
    let fraction = match input.progress {
        Some(progress) if !(-PROGRESS_SLACK..=1.0 + PROGRESS_SLACK).contains(&progress) => {
            return fault(
                format!("{at}/progress"),
                "progress_invalid",
                format!("progress must be 0 to 1, got {progress}"),
            );
        }
        progress => progress.map(|progress| progress.clamp(0.0, 1.0)),
    };
    let checkpoint = match input.checkpoint {
        Some(raw) => {
            let pointer = format!("{at}/checkpoint");
            Some(opaque(raw, &pointer, "checkpoint_invalid", limits::CHECKPOINT_BYTES_MAX)?.into())
        }
        None => None,
    };
    let message = input.message.map(|message| cut(message, limits::LOG_LINE_BYTES_MAX));
    let tells = fraction.is_some() || checkpoint.is_some() || message.is_some();
    let progress = tells.then_some(Progress { fraction, message, checkpoint, at: now });
    Ok(Beat { execution, fence: input.fence_token, progress, logs: log_lines(input.logs, now, at)? })
}

/// JSON that only its owner understands: bounded in size and depth.
fn opaque<'a>(raw: &'a RawValue, pointer: &str, code: &str, bytes_max: usize) -> Checked<&'a str> {
    let text = raw.get();
    if text.len() > bytes_max {
        return fault(pointer, code, format!("it has {} bytes; the limit is {bytes_max}", text.len()));
    }
    match json::check(text.as_bytes(), DEPTH_MAX) {
        Ok(text) => Ok(text),
        Err(json::Malformed::TooDeep) => fault(pointer, code, format!("it is nested deeper than {DEPTH_MAX}")),
        Err(_) => fault(pointer, code, "it is no JSON that everybody reads the same way"),
    }
}

fn log_lines(lines: Option<Vec<LogInput>>, now: Timestamp, at: &str) -> Checked<Vec<LogLine>> {
    let lines = lines.unwrap_or_default();
    if lines.len() > limits::LOG_LINES_PER_BEAT_MAX {
        let message = format!("at most {} lines, got {}", limits::LOG_LINES_PER_BEAT_MAX, lines.len());
        return fault(format!("{at}/logs"), "logs_too_many", message);
    }
    let line = |line: LogInput| LogLine {
        // A line is worth more than its time: one that cannot be read arrived now.
        at: line.at.and_then(|at| at.parse().ok()).unwrap_or(now),
        level: line.level.map_or_else(|| "info".to_owned(), |level| cut(level, WORD_BYTES_MAX.1)),
        message: cut(line.message, limits::LOG_LINE_BYTES_MAX),
    };
    Ok(lines.into_iter().map(line).collect())
}

/// The end of an attempt, checked; `at` is its place in the request.
pub(crate) fn finish(execution: ExecutionId, input: CompleteInput<'_>, now: Timestamp, at: &str) -> Checked<Finish> {
    let worker = input.worker_id.as_deref().map(worker_id).transpose().map_err(|fault| below(at, fault))?;
    let fence = known(input.fence_token, worker.is_some(), at)?;
    let response = response(input.result, input.output, input.status, at)?;
    let outcome = match input.status {
        CompleteStatus::Succeeded => Outcome::Succeeded { response },
        CompleteStatus::Failed => {
            let error = input.error.unwrap_or_default();
            let retryable = error.retryable.unwrap_or(true);
            let retry_after_ms = error.retry_after_ms.map(|ms| ms.min(limits::BACKOFF_MS_MAX));
            let error = attempt_error(error, "error");
            Outcome::Failed { error, retryable, retry_after_ms, pause_job: false, response }
        }
        CompleteStatus::TimedOut => {
            Outcome::TimedOut { error: attempt_error(input.error.unwrap_or_default(), "timeout") }
        }
        CompleteStatus::Snoozed => Outcome::Snoozed { for_ms: snooze_ms(input.snooze_ms, at)? },
        CompleteStatus::Cancelled => Outcome::Cancelled,
    };
    let logs = log_lines(input.logs, now, at)?;
    Ok(Finish { execution, fence, worker, outcome, duration_ms: input.duration_ms, logs })
}

/// The fence, which may be missing where the worker is named.
pub(crate) fn known(fence: Option<u64>, worker_is_named: bool, at: &str) -> Checked<Option<u64>> {
    if fence.is_none() && !worker_is_named {
        return fault(
            format!("{at}/fence_token"),
            "fence_missing",
            "send the `fence_token` of the claim, or the `worker_id`",
        );
    }
    Ok(fence)
}

/// A fault at its place in the request.
fn below(at: &str, mut fault: FieldProblem) -> FieldProblem {
    fault.pointer.insert_str(0, at);
    fault
}

fn snooze_ms(sent: Option<u64>, at: &str) -> Checked<u64> {
    match sent {
        Some(ms) if ms <= limits::BACKOFF_MS_MAX => Ok(ms),
        Some(ms) => {
            let message = format!("snooze_ms must be at most {} (7 days), got {ms}", limits::BACKOFF_MS_MAX);
            fault(format!("{at}/snooze_ms"), "snooze_invalid", message)
        }
        None => fault(format!("{at}/snooze_ms"), "snooze_invalid", "SNOOZED needs `snooze_ms`"),
    }
}

/// What is kept of what an attempt produced: its result, or else its output, which is cut.
fn response(
    result: Option<&RawValue>,
    output: Option<String>,
    status: CompleteStatus,
    at: &str,
) -> Checked<Option<Response>> {
    let status = if status == CompleteStatus::Succeeded { 200 } else { 500 };
    if let Some(raw) = result {
        let text = opaque(raw, &format!("{at}/result"), "result_invalid", limits::RESULT_BYTES_MAX)?;
        return Ok(Some(Response { status, body: text.into(), truncated: false }));
    }
    Ok(output.map(|output| {
        let truncated = output.len() > limits::RESPONSE_BYTES_MAX;
        Response { status, body: cut(output, limits::RESPONSE_BYTES_MAX).into_bytes(), truncated }
    }))
}

fn attempt_error(error: ErrorInput, kind: &str) -> AttemptError {
    let kind = error.kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| kind.to_owned());
    let mut message = error.message.unwrap_or_default();
    if let Some(stack) = error.stack.filter(|stack| !stack.is_empty()) {
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(&stack);
    }
    AttemptError { kind: cut(kind, WORD_BYTES_MAX.0), message: cut(message, limits::ERROR_BYTES_MAX) }
}

/// The start of a text, in whole characters.
fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

/// An attempt, as its worker gets it; a lease has room for two heartbeats that fail.
pub(crate) fn claimed(pulled: Pulled, lease_ms: u64) -> wire::ClaimedExecution {
    let Pulled { granted, pool, handler, deadline_at } = pulled;
    wire::ClaimedExecution {
        execution_id: granted.fence.execution.to_string(),
        job_id: granted.job.to_string(),
        job_name: granted.definition.name.clone(),
        job_version: granted.job_version,
        handler: handler.to_string(),
        pool: pool.to_string(),
        payload: RawValue::from_string(granted.definition.payload.to_string())
            .unwrap_or_else(|_| RawValue::NULL.to_owned()),
        attempt: granted.fence.attempt,
        max_attempts: granted.attempts_from + granted.definition.retry.max_attempts,
        scheduled_at: granted.fire_at.to_string(),
        covers_from: granted.covers_from.map(|at| at.to_string()),
        deadline_at: deadline_at.to_string(),
        fence_token: granted.fence.fence,
        lease_ms,
        heartbeat_ms: (lease_ms / 3).clamp(1, limits::HEARTBEAT_MS),
        timeout_ms: granted.timeout_ms,
        checkpoint: granted.checkpoint.and_then(|text| serde_json::from_str(&text).ok()),
    }
}

/// What a worker is to do.
pub(crate) fn directive(directive: Directive) -> wire::Directive {
    match directive {
        Directive::Run => wire::Directive::Run,
        Directive::Quiet => wire::Directive::Quiet,
        Directive::Drain => wire::Directive::Drain,
    }
}

#[cfg(test)]
mod tests;
