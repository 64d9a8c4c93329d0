//! Fires: executions are born, or given to a newer version of their job.

use super::Result;
use super::overlap;
use super::rules::in_order;
use super::set::{IdSet, WorkingSet};
use super::shards::ShardSet;
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::shard::shard_of;
use campanile_model::store::{Fire, FireBatch, Fired};
use campanile_model::time::Timestamp;

/// The state in which executions are born.
pub(crate) const BORN: State = lifecycle::target(Event::Refire);

/// The shards that must be the caller's. What somebody asked for needs no fence where there is none: no schedule repeats
/// it.
pub(crate) fn guarded(batch: &FireBatch) -> ShardSet {
    let unfenced = batch.fences.is_empty();
    let fires = batch.fires.iter().filter(|fire| !(unfenced && fire.kind != FireKind::Schedule));
    let jobs = fires.map(|fire| fire.dispatch.job).chain(batch.skips.iter().map(|skip| skip.job));
    ShardSet::of(jobs.map(shard_of))
}

/// Positions of the fires that count, in the order of their ids: each execution once, in its newest version.
pub(crate) fn newest(fires: &[Fire]) -> Vec<usize> {
    let mut newest: Vec<usize> = Vec::with_capacity(fires.len());
    for i in in_order(fires, |fire| fire.dispatch.execution) {
        let dispatch = &fires[i].dispatch;
        match newest.last_mut().filter(|last| fires[**last].dispatch.execution == dispatch.execution) {
            None => newest.push(i),
            Some(last) if fires[*last].dispatch.job_version < dispatch.job_version => *last = i,
            Some(_) => {}
        }
    }
    newest
}

/// What becomes of fires, of which `newest` count. `born` are those that had no execution before: the backend has inserted
/// them, in the state `BORN`; the set has the others with their runs.
pub(crate) fn fire(
    set: &mut WorkingSet<'_>,
    batch: &FireBatch,
    newest: &[usize],
    born: &IdSet<ExecutionId>,
) -> Result<Vec<Fired>> {
    let mut verdicts = vec![Fired::Exists; batch.fires.len()];
    for &i in newest {
        let fire = &batch.fires[i];
        let dispatch = &fire.dispatch;
        let new = if born.contains(&dispatch.execution) {
            set.effects.sums.count(dispatch.tenant, &dispatch.pool, None, Some(BORN));
            set.effects.watches.begin(fire);
            true
        } else {
            refire(set, fire, batch.now)?
        };
        if new {
            verdicts[i] = Fired::New;
        }
    }
    Ok(verdicts)
}

/// Gives an execution that is there to a newer version of its job, if that may take it over: it has not begun, and was
/// not skipped for another reason than its version, or that the job was paused then. Says whether it did.
fn refire(set: &mut WorkingSet<'_>, fire: &Fire, now: Timestamp) -> Result<bool> {
    let dispatch = &fire.dispatch;
    // One that is gone again was there long ago.
    let Some(found) = set.get(dispatch.execution) else { return Ok(false) };
    let given_way = !found.state.is_final() || matches!(found.reason, Some(Reason::StaleVersion | Reason::Paused));
    let begun = found.attempt > 0 || found.first_start().is_some();
    let legal = lifecycle::sources(Event::Refire).contains(found.state);
    let older = found.job_version < dispatch.job_version;
    // Somebody who fills a gap does not take away what a version of the schedule is about to run.
    let gap = fire.kind == FireKind::Schedule || found.state.is_final();
    let forbidden = !legal || !given_way || begun || !older || !gap;
    // airflow#23520: after a restart, what ran already is fired again.
    if forbidden && !planted(Bug("fired-again-after-restart")) {
        return Ok(false);
    }
    let (was, overlap, pool) = (found.state, found.of.overlap, found.of.pool.clone());
    set.effects.sums.count(dispatch.tenant, &pool, Some(was), None);
    set.effects.sums.count(dispatch.tenant, &dispatch.pool, None, Some(BORN));
    set.at(dispatch.execution)?.refired(fire, now);
    set.effects.watches.begin_again(fire);
    // What waited for its turn asks for it again, by its new policy.
    let leaves = fire.overlap == Overlap::Allow || was == lifecycle::target(Event::Hold);
    if overlap != Overlap::Allow && leaves {
        overlap::give_turn_on(set, (dispatch.job, dispatch.execution), now)?;
    }
    Ok(true)
}
