//! Cancelling: executions that wait end now, attempts of external workers are asked to stop, and a fire that has not come is
//! cancelled before it is born.

use super::effects::{Effects, Subject, Transition};
use super::executions::{self, Found, insert_one};
use super::failure::{Done, expect_one};
use super::history;
use super::keys::Keys;
use super::overlaps;
use super::rows::Texts;
use crate::rules::{after, is_node};
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{CancelBatch, CancelTarget, CancelVerdict, Cancelled, Fire, Waiting};
use rusqlite::{Connection, params};

/// Cancels executions and fires.
pub(super) fn cancel(connection: &Connection, batch: &CancelBatch) -> Done<Cancelled> {
    let mut effects = Effects::new(connection);
    let mut cancelled = Cancelled::default();
    let mut all_new = true;
    for target in &batch.targets {
        let id = match target {
            CancelTarget::Execution(id) => *id,
            CancelTarget::Fire(fire) => fire.dispatch.execution,
        };
        let found = executions::find(connection, id, &mut Texts::default())?;
        // optio#575: runs have no tenant of their own to compare.
        let mine = |found: &Found| found.of.tenant == batch.tenant || planted(Bug("tenant-not-compared"));
        let (verdict, new) = match (found.filter(mine), target) {
            (Some(found), _) => stop(&mut effects, &found, batch, &mut cancelled.ready)?,
            (None, CancelTarget::Fire(fire)) if fire.dispatch.tenant == batch.tenant => {
                forestall(&mut effects, fire, batch)?
            }
            (None, _) => (CancelVerdict::Gone, false),
        };
        all_new &= new;
        cancelled.verdicts.push(verdict);
    }
    effects.apply()?;
    if let Some(key) = batch.idempotency.as_ref().filter(|_| all_new) {
        Keys::prepare(connection)?.remember(batch.tenant, key)?;
    }
    Ok(cancelled)
}

/// Ends an execution, or asks its attempt to stop. Says whether this did anything.
fn stop(
    effects: &mut Effects<'_>,
    found: &Found,
    batch: &CancelBatch,
    ready: &mut Vec<Waiting>,
) -> Done<(CancelVerdict, bool)> {
    if !lifecycle::sources(Event::Cancel).contains(found.state) {
        // dbos#767: a completion was faster, and the caller is told that it was cancelled.
        if planted(Bug("cancel-lost-and-confirmed")) {
            return Ok((CancelVerdict::Done, true));
        }
        return Ok((CancelVerdict::Stale { state: found.state }, false));
    }
    let why = (Reason::CancelledByUser, batch.note.as_deref());
    if let Some(grace_ms) = batch.grace_ms.filter(|_| found.runs() && !is_node(found.worker.as_deref())) {
        let until = executions::ask(effects.connection(), found, why, after(batch.now, grace_ms), batch.now)?;
        let new = found.cancel_requested_at.is_none() || until < found.wake_at;
        return Ok((CancelVerdict::Asked { until }, new));
    }
    executions::end(effects, found, Event::Cancel, why, batch.now)?;
    if found.of.overlap != Overlap::Allow {
        overlaps::over(effects, (found.of.job, found.of.id), batch.now, ready)?;
    }
    Ok((CancelVerdict::Done, true))
}

/// Makes an execution that is cancelled already: the fire, when it comes, finds it there.
fn forestall(effects: &mut Effects<'_>, fire: &Fire, batch: &CancelBatch) -> Done<(CancelVerdict, bool)> {
    let connection = effects.connection();
    let dispatch = &fire.dispatch;
    let cancelled = lifecycle::target(Event::Cancel);
    let mut insert = connection.prepare_cached(include_str!("sql/executions/fire.sql"))?;
    if !insert_one(&mut insert, fire, cancelled, batch.now)? {
        // It is another tenant's.
        return Ok((CancelVerdict::Gone, false));
    }
    let changed = connection.prepare_cached(include_str!("sql/executions/forestall.sql"))?.execute(params![
        dispatch.execution.as_bytes(),
        cancelled.code(),
        Reason::CancelledByUser.code(),
        batch.now.millis(),
        batch.note,
    ])?;
    expect_one(changed, dispatch.execution)?;
    history::append(connection, std::iter::once((dispatch.job, dispatch.execution)))?;
    let of = Subject::fired(fire, dispatch.pool.clone(), dispatch.target.clone());
    let reason = Some(Reason::CancelledByUser);
    let event = Event::Cancel;
    effects.note(&Transition { of: &of, from: None, event, at: batch.now, reason, attempt: None })?;
    Ok((CancelVerdict::Done, true))
}

/// How many executions a batch may make.
pub(super) fn births(batch: &CancelBatch) -> usize {
    batch.targets.iter().filter(|target| matches!(target, CancelTarget::Fire(_))).count()
}
