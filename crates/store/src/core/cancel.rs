//! Cancelling: executions that wait end now, attempts of external workers are asked to stop, and a fire that has not
//! come is cancelled before it is born.

use super::Result;
use super::change::{Subject, Transition};
use super::overlap;
use super::rules::{after, is_node};
use super::set::{IdSet, WorkingSet};
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{CancelBatch, CancelTarget, CancelVerdict, Fire};

/// The state in which executions of fires are born that were cancelled before they came.
pub(crate) const BORN: State = lifecycle::target(Event::Cancel);
pub(crate) const REASON: Reason = Reason::CancelledByUser;

/// The execution that is meant.
pub(crate) fn execution(target: &CancelTarget) -> ExecutionId {
    match target {
        CancelTarget::Execution(id) => *id,
        CancelTarget::Fire(fire) => fire.dispatch.execution,
    }
}

/// Fires that may have no execution yet, in the order of their ids: the backend inserts them, cancelled, before it looks
/// for the others, so that nobody can fire what was looked for and not found.
pub(crate) fn unborn(batch: &CancelBatch) -> Vec<&Fire> {
    let fires = batch.targets.iter().filter_map(|target| match target {
        CancelTarget::Fire(fire) if fire.dispatch.tenant == batch.tenant => Some(&**fire),
        _ => None,
    });
    let mut fires: Vec<&Fire> = fires.collect();
    fires.sort_by_key(|fire| fire.dispatch.execution);
    fires.dedup_by_key(|fire| fire.dispatch.execution);
    fires
}

/// Cancels. `born` are those that were inserted for this; the set has the others with their runs. Answers also whether
/// every target was cancelled or asked to stop by this: only then an answer is remembered.
pub(crate) fn cancel(
    set: &mut WorkingSet<'_>,
    batch: &CancelBatch,
    mut born: IdSet<ExecutionId>,
) -> Result<(Vec<CancelVerdict>, bool)> {
    let mut noted = IdSet::default();
    let mut verdicts = Vec::with_capacity(batch.targets.len());
    let mut all_new = true;
    for target in &batch.targets {
        let id = execution(target);
        let (verdict, new) = match target {
            CancelTarget::Fire(fire) if born.remove(&id) => {
                note_birth(set, fire, batch);
                noted.insert(id);
                (CancelVerdict::Done, true)
            }
            _ if noted.contains(&id) => (CancelVerdict::Stale { state: BORN }, false),
            _ => stop(set, id, batch)?,
        };
        all_new &= new;
        verdicts.push(verdict);
    }
    Ok((verdicts, all_new))
}

/// Ends an execution, or asks its attempt to stop. Says whether this did anything.
fn stop(set: &mut WorkingSet<'_>, id: ExecutionId, batch: &CancelBatch) -> Result<(CancelVerdict, bool)> {
    // optio#575: runs have no tenant of their own to compare.
    let mine = |tenant| tenant == batch.tenant || planted(Bug("tenant-not-compared"));
    let Some(found) = set.get(id).filter(|found| mine(found.of.tenant)) else {
        return Ok((CancelVerdict::Gone, false));
    };
    if !lifecycle::sources(Event::Cancel).contains(found.state) {
        // dbos#767: a completion was faster, and the caller is told that it was cancelled.
        if planted(Bug("cancel-lost-and-confirmed")) {
            return Ok((CancelVerdict::Done, true));
        }
        return Ok((CancelVerdict::Stale { state: found.state }, false));
    }
    let why = (REASON, batch.note.as_deref());
    if let Some(grace_ms) = batch.grace_ms.filter(|_| found.runs() && !is_node(found.worker.as_deref())) {
        let (asked_before, wake_at) = (found.cancel_requested_at.is_some(), found.wake_at);
        let until = set.ask_to_stop(id, why, after(batch.now, grace_ms), batch.now)?;
        return Ok((CancelVerdict::Asked { until }, !asked_before || until < wake_at));
    }
    overlap::end(set, id, Event::Cancel, why, batch.now)?;
    Ok((CancelVerdict::Done, true))
}

/// What follows from the birth of an execution that is cancelled already.
fn note_birth(set: &mut WorkingSet<'_>, fire: &Fire, batch: &CancelBatch) {
    let of = Subject::fired(fire, fire.dispatch.pool.clone(), fire.dispatch.target.clone());
    let (event, reason) = (Event::Cancel, Some(REASON));
    set.effects.note(&Transition { of: &of, from: None, event, at: batch.now, reason, attempt: None });
}
