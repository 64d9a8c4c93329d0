//! Cancelling: executions that wait end now, attempts of external workers are asked to stop, and a fire that has not
//! come is cancelled before it is born.

use super::Locks;
use super::executions;
use super::keys;
use super::overlaps;
use super::sheet::{Against, Sheet};
use crate::change::{Subject, Transition};
use crate::rules::{after, is_node};
use campanile_model::execution::Reason;
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{CancelBatch, CancelTarget, CancelVerdict, Cancelled, Fire};
use campanile_pg::{Done, Tx};
use std::collections::HashSet;

/// Cancels executions and fires.
pub(super) async fn cancel(tx: &Tx<'_>, locks: Locks, batch: &CancelBatch) -> Done<Cancelled> {
    // First, so that nobody can fire what was looked for and not found.
    let mut unborn = forestall(tx, batch).await?;
    let there = batch.targets.iter().map(execution).filter(|id| !unborn.contains(id));
    let mut sheet = Sheet::load(tx, Against::Runs(locks), there).await?;
    let mut born = HashSet::new();
    let mut verdicts = Vec::with_capacity(batch.targets.len());
    let mut all_new = true;
    for target in &batch.targets {
        let id = execution(target);
        let (verdict, new) = match target {
            CancelTarget::Fire(fire) if unborn.remove(&id) => {
                note_birth(&mut sheet, fire, batch);
                born.insert(id);
                (CancelVerdict::Done, true)
            }
            _ if born.contains(&id) => (CancelVerdict::Stale { state: lifecycle::target(Event::Cancel) }, false),
            _ => stop(&mut sheet, id, batch)?,
        };
        all_new &= new;
        verdicts.push(verdict);
    }
    let ready = sheet.write(tx).await?;
    if let Some(key) = batch.idempotency.as_ref().filter(|_| all_new) {
        keys::remember(tx, &[(batch.tenant, key)]).await?;
    }
    Ok(Cancelled { verdicts, ready })
}

fn execution(target: &CancelTarget) -> ExecutionId {
    match target {
        CancelTarget::Execution(id) => *id,
        CancelTarget::Fire(fire) => fire.dispatch.execution,
    }
}

/// Ends an execution, or asks its attempt to stop. Says whether this did anything.
fn stop(sheet: &mut Sheet<'_>, id: ExecutionId, batch: &CancelBatch) -> Done<(CancelVerdict, bool)> {
    let Some(found) = sheet.get(id).filter(|found| found.of.tenant == batch.tenant) else {
        return Ok((CancelVerdict::Gone, false));
    };
    if !lifecycle::sources(Event::Cancel).contains(found.state) {
        return Ok((CancelVerdict::Stale { state: found.state }, false));
    }
    let why = (Reason::CancelledByUser, batch.note.as_deref());
    if let Some(grace_ms) = batch.grace_ms.filter(|_| found.runs() && !is_node(found.worker.as_deref())) {
        let (asked_before, wake_at) = (found.cancel_requested_at.is_some(), found.wake_at);
        let until = executions::ask(sheet, id, why, after(batch.now, grace_ms), batch.now)?;
        return Ok((CancelVerdict::Asked { until }, !asked_before || until < wake_at));
    }
    let (overlap, job) = (found.of.overlap, found.of.job);
    executions::end(sheet, id, Event::Cancel, why, batch.now)?;
    if overlap != Overlap::Allow {
        overlaps::over(sheet, (job, id), batch.now)?;
    }
    Ok((CancelVerdict::Done, true))
}

/// Makes executions of fires that have not come, cancelled already: the fires, when they come, find them there. Answers
/// which.
async fn forestall(tx: &Tx<'_>, batch: &CancelBatch) -> Done<HashSet<ExecutionId>> {
    let fires = batch.targets.iter().filter_map(|target| match target {
        CancelTarget::Fire(fire) if fire.dispatch.tenant == batch.tenant => Some(&**fire),
        _ => None,
    });
    let mut fires: Vec<&Fire> = fires.collect();
    fires.sort_by_key(|fire| fire.dispatch.execution);
    let ended = Some((Reason::CancelledByUser, batch.note.as_deref()));
    executions::insert(tx, fires.into_iter(), lifecycle::target(Event::Cancel), batch.now, ended).await
}

/// What follows from such a birth.
fn note_birth(sheet: &mut Sheet<'_>, fire: &Fire, batch: &CancelBatch) {
    let of = Subject::fired(fire, fire.dispatch.pool.clone(), fire.dispatch.target.clone());
    let reason = Some(Reason::CancelledByUser);
    let event = Event::Cancel;
    sheet.effects.note(&Transition { of: &of, from: None, event, at: batch.now, reason, attempt: None });
}
