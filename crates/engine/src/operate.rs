//! Step 12, operate: what operators do. Replays of dead executions and backfills of a job's past, here; cancels, and a few dead
//! executions at once.
//!
//! An operation is a row with what to do and how far it got. It moves in steps: look at what it started before, decide
//! whether to go on (`pace`), start a few more, write the progress. A crash between two of these repeats at most one step;
//! that finds its executions started already, passes them over, and does not count how they end. Nothing runs twice.

use crate::bells::Bells;
use crate::calls::{self, stopped};
use crate::context::Context;
use crate::dispatcher::Dispatcher;
use campanile_model::execution::Execution;
use campanile_model::lifecycle::State;
use campanile_model::operation::{Operation, OperationKind, OperationState};
use campanile_model::store::{Applied, Expected, Page, RecordKey, RecordKind, RecordQuery, Stored};
use campanile_model::{Error, ExecutionId, FieldError, Kind, OperationId, Result, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::watch;

mod backfill;
mod cancel;
mod dead;
mod replay;

pub use backfill::{BackfillPlan, BackfillSpec, PlannedFire, Reprocess, preview as preview_backfill};
pub use cancel::{Cancel, cancel, fire_at};
pub use dead::{bury, bury_matching, replay_now};
pub use replay::{ReplaySpec, preview as preview_replay};

/// How far an operation got.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Executions that it set out to start, where that is known.
    pub total: Option<u64>,
    pub started: u64,
    /// Passed over: they were not dead any more, or had succeeded already.
    pub passed_over: u64,
    /// Of the started ones, those that succeeded.
    pub succeeded: u64,
    /// Of the started ones, those that did not.
    pub failed: u64,
    /// Started and not over.
    pub open: Vec<String>,
    /// Where it goes on.
    pub cursor: Option<String>,
    /// Whether the canary is over.
    pub canary_over: bool,
    /// How many its rate lets it start, as of `credited_ms`.
    pub credit: f64,
    /// When that was counted, in milliseconds.
    pub credited_ms: Option<i64>,
    /// Everything is started.
    pub exhausted: bool,
    pub message: String,
}

/// Under which conditions an operation goes on.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// At most this many are started per second.
    pub per_second: Option<f64>,
    /// At most this many are open at the same time.
    pub max_open: Option<usize>,
    /// This many are tried first, and all of them must be over before the rest starts.
    pub canary: Option<u64>,
    /// It stops when more than this share of those that are over failed, in percent.
    pub stop_if_failing_percent: Option<f64>,
}

/// Failures below this many finished ones say nothing about the rest, unless they are the canary.
const FINISHED_MIN: u64 = 10;
/// How long a step waits for the next.
const STEP_MS: u64 = 100;
/// The same where many are open: each look reads all of them.
const CROWDED_MS: u64 = 1_000;
/// What the progress of such an operation has at least, in bytes.
const CROWDED_BYTES: usize = 4_096;
/// How long the loop sleeps where there is nothing to do; the pulse rings when there is.
const IDLE_MS: u64 = 10_000;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
enum Pace {
    /// Start up to this many.
    Start(usize),
    Wait,
    End(OperationState, String),
}

/// Decides whether an operation goes on. Pure.
fn pace(terms: &Terms, progress: &Progress, now: Timestamp) -> Pace {
    let finished = progress.succeeded + progress.failed;
    let canary = terms.canary.unwrap_or(0);
    let in_canary = canary > 0 && !progress.canary_over;
    let percent = 100.0 * progress.failed as f64 / (finished.max(1)) as f64;
    let too_many = terms.stop_if_failing_percent.is_some_and(|max| percent > max);
    let canary_judged = in_canary && progress.open.is_empty() && (progress.started >= canary || progress.exhausted);
    if too_many && (finished >= FINISHED_MIN || canary_judged) {
        let what = if in_canary { "canary" } else { "replay" };
        let message = format!("stopped: {} of {finished} failed in the {what} ({percent:.0} %)", progress.failed);
        return Pace::End(OperationState::Stopped, message);
    }
    if progress.exhausted {
        return match progress.open.is_empty() {
            true => {
                Pace::End(OperationState::Done, format!("{} succeeded, {} failed", progress.succeeded, progress.failed))
            }
            false => Pace::Wait,
        };
    }
    let mut room = terms.max_open.unwrap_or(limits::OPERATION_OPEN_MAX).clamp(1, limits::OPERATION_OPEN_MAX);
    room = room.saturating_sub(progress.open.len());
    if in_canary {
        room = room.min(canary.saturating_sub(progress.started) as usize);
    }
    if let Some(credit) = credit(terms, progress, now) {
        room = room.min(credit as usize);
    }
    if room == 0 { Pace::Wait } else { Pace::Start(room) }
}

/// How many the rate lets it start now. Time that passed without it, such as a restart, counts for no more than a second.
fn credit(terms: &Terms, progress: &Progress, now: Timestamp) -> Option<f64> {
    let rate = terms.per_second?;
    let Some(credited_ms) = progress.credited_ms else { return Some(1.0) };
    let elapsed_s = (now.millis() - credited_ms).max(0) as f64 / 1_000.0;
    Some((progress.credit + elapsed_s * rate).min(rate.max(1.0)))
}

/// Runs operations until told to stop.
pub async fn run(ctx: Context, dispatcher: Dispatcher, bells: Arc<Bells>, mut stop: watch::Receiver<bool>) {
    loop {
        let mut wait_ms = IDLE_MS;
        let operations = match ctx.duty.is_keeper() {
            true => at_work(&ctx).await,
            false => Ok(Vec::new()),
        };
        match operations {
            Ok(operations) => {
                for (version, operation) in operations {
                    wait_ms = wait_ms.min(if operation.progress.len() > CROWDED_BYTES { CROWDED_MS } else { STEP_MS });
                    let id = operation.id;
                    if let Err(error) = step(&ctx, &dispatcher, version, operation).await {
                        calls::failed(&ctx, &format!("go on with {id}"), &error);
                    }
                }
            }
            Err(error) => calls::failed(&ctx, "read operations", &error),
        }
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            () = bells.operations.notified() => {}
            () = ctx.clock.sleep_ms(wait_ms) => {}
        }
    }
}

/// Accepts a replay of dead executions.
pub async fn accept_replay(ctx: &Context, bells: &Bells, tenant: TenantId, mut spec: ReplaySpec) -> Result<Operation> {
    // Those that die from now on are not meant.
    spec.before_ms = ctx.clock.now().millis();
    let (count, more, _) = preview_replay(ctx, tenant, &spec).await?;
    let progress = Progress { total: (!more).then_some(count), ..Progress::default() };
    let operation = create(ctx, tenant, OperationKind::Replay, &spec, &progress).await?;
    bells.operations.notify_one();
    Ok(operation)
}

pub async fn accept_backfill(ctx: &Context, bells: &Bells, tenant: TenantId, spec: &BackfillSpec) -> Result<Operation> {
    let plan = preview_backfill(ctx, tenant, spec).await?;
    if plan.fires == 0 {
        let message = "the schedule has no fire in that range";
        return Err(Error::invalid(vec![FieldError::new("/from", "range_invalid", message)]));
    }
    let progress = Progress { total: Some(plan.starts), ..Progress::default() };
    let operation = create(ctx, tenant, OperationKind::Backfill, spec, &progress).await?;
    bells.operations.notify_one();
    Ok(operation)
}

async fn create(
    ctx: &Context,
    tenant: TenantId,
    kind: OperationKind,
    spec: &impl Serialize,
    progress: &Progress,
) -> Result<Operation> {
    if at_work(ctx).await?.len() >= limits::OPERATIONS_MAX {
        let message = format!("{} operations are at work already; try again when one is done", limits::OPERATIONS_MAX);
        return Err(Error::new(Kind::Unavailable, message).with_code("operations_too_many"));
    }
    let now = ctx.clock.now();
    let sequence = ctx.random.next();
    let operation = Operation {
        id: OperationId::new(now, (sequence >> 48) as u16, ctx.random.next()),
        tenant,
        kind,
        state: OperationState::Running,
        spec: text(spec)?,
        progress: text(progress)?,
        created_at: now,
        updated_at: now,
    };
    ctx.store.put_record(operation.clone().into(), Some(Expected::Absent)).await?;
    Ok(operation)
}

/// Stops an operation; what it started goes on.
pub async fn stop(ctx: &Context, tenant: TenantId, id: OperationId) -> Result<Operation> {
    loop {
        let (version, operation) = get(ctx, tenant, id).await?;
        if operation.state != OperationState::Running {
            let message = format!("{id} is {} already", operation.state.as_str());
            return Err(Error::new(Kind::Conflict, message).with_code("operation_final"));
        }
        let cancelled = Operation { state: OperationState::Cancelled, updated_at: ctx.clock.now(), ..operation };
        // Refused when a step was written meanwhile.
        if ctx.store.put_record(cancelled.clone().into(), Some(Expected::Version(version))).await? {
            return Ok(cancelled);
        }
    }
}

/// One operation, and its version.
pub async fn get(ctx: &Context, tenant: TenantId, id: OperationId) -> Result<(u32, Operation)> {
    let found = ctx.store.get_record(&RecordKey::new(RecordKind::Operation, tenant, id.to_digits())).await?;
    found.map(versioned).transpose()?.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("no operation has the id {id}")).with_code("operation_not_found")
    })
}

/// A page of operations, newest first, before the one with this id.
pub async fn list(
    ctx: &Context,
    tenant: TenantId,
    before: Option<OperationId>,
    limit: usize,
) -> Result<Page<Operation>> {
    let before = before.map(|id| RecordKey::new(RecordKind::Operation, tenant, id.to_digits()));
    let query = RecordQuery { before, ..RecordQuery::new(RecordKind::Operation, Some(tenant), limit) };
    let page = ctx.store.list_records(&query).await?;
    let items = page.items.into_iter().map(Stored::into_inner).collect::<Result<_>>()?;
    Ok(Page { items, has_more: page.has_more })
}

/// The operations of all tenants that are at work, with their versions.
async fn at_work(ctx: &Context) -> Result<Vec<(u32, Operation)>> {
    let query = RecordQuery { at_work: true, ..RecordQuery::new(RecordKind::Operation, None, limits::OPERATIONS_MAX) };
    ctx.store.list_records(&query).await?.items.into_iter().rev().map(versioned).collect()
}

fn versioned(stored: Stored) -> Result<(u32, Operation)> {
    Ok((stored.version, stored.into_inner()?))
}

/// How far an operation got, as it was stored.
pub fn progress_of(operation: &Operation) -> Result<Progress> {
    parse(&operation.progress)
}

/// One step of an operation.
async fn step(ctx: &Context, dispatcher: &Dispatcher, version: u32, operation: Operation) -> Result<()> {
    let mut progress = progress_of(&operation)?;
    let before = progress.clone();
    look(ctx, operation.tenant, &mut progress).await?;
    let terms: Terms = parse(&operation.spec)?;
    let now = ctx.clock.now();
    let mut state = OperationState::Running;
    let mut next = pace(&terms, &progress, now);
    let canary_done = progress.open.is_empty() && terms.canary.is_some_and(|canary| progress.started >= canary);
    if next == Pace::Wait && canary_done && !progress.canary_over {
        // It was judged by `pace`, and found well.
        progress.canary_over = true;
        next = pace(&terms, &progress, now);
    }
    match next {
        Pace::Wait => {}
        Pace::End(end, message) => {
            state = end;
            progress.message = message;
            tracing::info!(operation = %operation.id, state = end.as_str(), message = %progress.message, "operation ended");
        }
        Pace::Start(room) => {
            let (credit, before) = (credit(&terms, &progress, now), progress.started);
            match operation.kind {
                OperationKind::Replay => replay::start(ctx, dispatcher, &operation, &mut progress, room).await?,
                OperationKind::Backfill => backfill::start(ctx, dispatcher, &operation, &mut progress, room).await?,
            }
            progress.credit = credit.unwrap_or(0.0) - (progress.started - before) as f64;
            progress.credited_ms = Some(now.millis());
        }
    }
    if progress == before && state == OperationState::Running {
        return Ok(());
    }
    let updated = Operation { state, progress: text(&progress)?, updated_at: now, ..operation };
    // Refused when it was cancelled meanwhile.
    ctx.store.put_record(updated.into(), Some(Expected::Version(version))).await?;
    Ok(())
}

/// Looks what became of the open ones.
async fn look(ctx: &Context, tenant: TenantId, progress: &mut Progress) -> Result<()> {
    if progress.open.is_empty() {
        return Ok(());
    }
    let ids: Vec<ExecutionId> = progress.open.iter().filter_map(|id| id.parse().ok()).collect();
    let found: Vec<Option<Execution>> = ctx.store.get_executions(tenant, &ids).await?;
    let mut open = Vec::new();
    for (id, execution) in ids.into_iter().zip(found) {
        match execution.map(|execution| execution.state) {
            Some(State::Succeeded) => progress.succeeded += 1,
            Some(state) if !state.is_final() => open.push(id.to_string()),
            Some(_) | None => progress.failed += 1,
        }
    }
    progress.open = open;
    Ok(())
}

/// Notes which of the executions that were meant to start did.
fn note(progress: &mut Progress, ids: &[ExecutionId], verdicts: &[Applied]) {
    for (id, verdict) in ids.iter().zip(verdicts) {
        match verdict {
            Applied::Done => {
                progress.started += 1;
                progress.open.push(id.to_string());
            }
            Applied::Stale { .. } | Applied::Gone => progress.passed_over += 1,
        }
    }
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Kind::Bug, format!("an operation cannot be written: {error}")))
}

fn parse<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::new(Kind::Corrupt, format!("a stored operation cannot be read: {error}")))
}

#[cfg(test)]
mod tests;
