//! Leases: what `core::lease` judges by is loaded, and what it decides is written; and whose leases are over.

use super::failure::Done;
use super::load;
use super::rows::{self, Columns, Texts};
use super::write::write_set;
use crate::core::lease;
use crate::core::rules::time_limit_ms;
use campanile_model::action::NODE_PREFIX;
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{Applied, AttemptFence, Deferral, Extended, Extension, RunningAttempt};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;

/// Moves the wake-up of waiting executions.
pub(super) fn defer(connection: &Connection, deferrals: &[Deferral]) -> Done<Vec<Applied>> {
    let mut set = load::load(connection, deferrals.iter().map(|deferral| deferral.execution))?;
    let verdicts = lease::defer(&mut set, deferrals)?;
    write_set(connection, set)?;
    Ok(verdicts)
}

/// Prolongs leases, and keeps what attempts report.
pub(super) fn extend(connection: &Connection, extensions: &[Extension]) -> Done<Vec<Extended>> {
    let mut set = load::load(connection, extensions.iter().map(|extension| extension.execution))?;
    let running = set.records().filter(|record| record.runs());
    let (versions, replayed): (Vec<_>, Vec<_>) =
        running.map(|record| ((record.of.job, record.job_version), (record.of.id, record.attempts_from))).unzip();
    load::load_definitions(connection, &mut set, versions)?;
    load::load_first_starts(connection, &mut set, replayed.into_iter().filter(|(_, from)| *from > 0))?;
    let logging = extensions.iter().filter(|extension| !extension.logs.is_empty());
    set.reports = load::load_reports(connection, logging.map(|extension| extension.execution))?;
    let verdicts = lease::extend(&mut set, extensions)?;
    write_set(connection, set)?;
    Ok(verdicts)
}

/// An attempt that runs, or the state of its execution.
fn running(row: &Row<'_>, texts: &mut Texts) -> Done<Result<RunningAttempt, State>> {
    let mut columns = Columns::of(row);
    let state = columns.state()?;
    if !lifecycle::sources(Event::Succeed).contains(state) {
        return Ok(Err(state));
    }
    let dispatch = rows::dispatch(&mut columns, texts)?;
    let lease_until = columns.instant()?;
    let fence = AttemptFence { execution: dispatch.execution, attempt: dispatch.attempt, fence: columns.number()? };
    let started_at = columns.instant()?;
    let worker = texts.share(columns.next::<Option<String>>()?.as_deref().unwrap_or_default());
    let (attempts_from, losses) = (columns.next()?, columns.next()?);
    let asked_at = columns.instant_or_none()?;
    let asked_for = columns.code_or_none("reason", Reason::from_code)?;
    let definition = rows::definition(&mut columns, texts)?;
    let (retry, own_ms) = (definition.retry, definition.timeout_ms);
    let first_started_at = columns.instant_or_none()?.unwrap_or(started_at);
    Ok(Ok(RunningAttempt {
        fence,
        dispatch,
        retry,
        timeout_ms: time_limit_ms(own_ms, retry.total_timeout_ms, first_started_at, started_at),
        started_at,
        worker,
        lease_until,
        attempts_from,
        losses,
        first_started_at,
        cancel_requested: asked_at.map(|at| (at, asked_for.unwrap_or(Reason::CancelledByUser))),
    }))
}

/// Reads the running attempts of these executions.
pub(super) fn load_running(connection: &Connection, ids: &[ExecutionId]) -> Done<Vec<Option<RunningAttempt>>> {
    let mut get = connection.prepare_cached(include_str!("sql/attempts/get_running.sql"))?;
    let mut texts = Texts::default();
    let mut attempts = Vec::with_capacity(ids.len());
    for id in ids {
        let mut found = get.query([id.as_bytes()])?;
        let attempt = found.next()?.map(|row| running(row, &mut texts)).transpose()?;
        attempts.push(attempt.and_then(Result::ok));
    }
    Ok(attempts)
}

/// Reads running attempts whose lease is over and whose runner is no node. A node bounds its attempts by its monotonic clock;
/// the lease, an instant of the wall clock, would end early when that jumps. It counts only for runners that cannot be asked
/// whether they live.
pub(super) fn load_expired(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<RunningAttempt>> {
    let mut load = connection.prepare_cached(include_str!("sql/attempts/load_expired.sql"))?;
    let mut found = load.query(params![now.millis(), NODE_PREFIX, limit as i64])?;
    let mut texts = Texts::default();
    let mut expired = Vec::new();
    while let Some(row) = found.next()? {
        expired.extend(running(row, &mut texts)?);
    }
    Ok(expired)
}

/// Reads running attempts of nodes that are gone.
pub(super) fn load_orphans(
    connection: &Connection,
    live_nodes: &HashSet<String>,
    limit: usize,
) -> Done<Vec<RunningAttempt>> {
    let mut load = connection.prepare_cached(include_str!("sql/attempts/load_orphans.sql"))?;
    let mut found = load.query([NODE_PREFIX])?;
    let mut texts = Texts::default();
    let mut orphans = Vec::new();
    while orphans.len() < limit {
        let Some(row) = found.next()? else { break };
        if let Ok(attempt) = running(row, &mut texts)? {
            let node = attempt.worker.strip_prefix(NODE_PREFIX).unwrap_or(&attempt.worker);
            // oban#862: a node is known by its host, so the one that was started again is taken for the one that died.
            let host = |name: &str| name.split('-').next().map(str::to_owned);
            if planted(Bug("node-is-its-host")) && live_nodes.iter().any(|live| host(live) == host(&attempt.worker)) {
                continue;
            }
            if !live_nodes.contains(node) && !live_nodes.contains(&*attempt.worker) {
                orphans.push(attempt);
            }
        }
    }
    Ok(orphans)
}
