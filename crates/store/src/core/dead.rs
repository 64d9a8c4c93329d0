//! Dead executions and the two ways out: run again, or given up.

use super::Result;
use super::record::{Record, Shape};
use super::set::{IdMap, WorkingSet};
use campanile_model::action::ActionKind;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::Priority;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, Replay};
use campanile_model::time::Timestamp;
use std::sync::Arc;

/// What is done, where and for whom, by a job as it is now.
pub(crate) struct Target {
    pub(crate) action: ActionKind,
    pub(crate) target: Arc<str>,
    pub(crate) pool: Arc<str>,
    pub(crate) priority: Priority,
}

/// Runs dead executions again. `targets` are those of jobs that are not deleted. The last attempt gets a row of its own,
/// since the execution's row will hold the next one; and the retry policy counts from here.
pub(crate) fn replay(
    set: &mut WorkingSet<'_>,
    (tenant, replays, now): (TenantId, &[Replay], Timestamp),
    targets: &IdMap<JobId, Target>,
) -> Result<Vec<Applied>> {
    let mut verdicts = Vec::with_capacity(replays.len());
    for replay in replays {
        verdicts.push(match find(set, tenant, replay.execution, Event::Replay) {
            Err(verdict) => verdict,
            Ok(found) => match targets.get(&found.of.job) {
                // Its job is deleted: there is nothing to run it by.
                None => Applied::Stale { state: found.state },
                Some(target) => {
                    run_again(set, replay, target, now)?;
                    Applied::Done
                }
            },
        });
    }
    Ok(verdicts)
}

fn run_again(set: &mut WorkingSet<'_>, replay: &Replay, target: &Target, now: Timestamp) -> Result<()> {
    let id = replay.execution;
    let kept = set.at(id)?.newest_attempt();
    set.attempts.extend(kept);
    let record = leave(set, id, Event::Replay, now)?;
    let (state, tenant) = (Some(record.state), record.of.tenant);
    let pool = std::mem::replace(&mut record.of.pool, target.pool.clone());
    record.of.target = target.target.clone();
    (record.action, record.priority) = (target.action, target.priority);
    // It waits for other runs of its job, whatever the policy says: neither must a replay be skipped, nor end what
    // runs.
    if record.of.overlap != Overlap::Allow {
        record.of.overlap = Overlap::BufferAll;
    }
    record.of.first_started_at = record.first_start();
    (record.wake_at, record.attempts_from, record.losses) = (replay.wake_at, record.attempt, 0);
    (record.reason, record.finished_at, record.outcome, record.error) = (None, None, None, None);
    (record.cancel_requested_at, record.cancel_reason) = (None, None);
    record.touch(Shape::Whole);
    let waiting = record.waiting();
    set.ready.push(waiting);
    if pool != target.pool {
        set.effects.sums.count(tenant, &pool, state, None);
        set.effects.sums.count(tenant, &target.pool, None, state);
    }
    Ok(())
}

/// Gives dead executions up.
pub(crate) fn bury(
    set: &mut WorkingSet<'_>,
    (tenant, executions, now): (TenantId, &[ExecutionId], Timestamp),
    note: &str,
) -> Result<Vec<Applied>> {
    let mut verdicts = Vec::with_capacity(executions.len());
    for &execution in executions {
        if let Err(verdict) = find(set, tenant, execution, Event::Bury) {
            verdicts.push(verdict);
            continue;
        }
        // The instant at which its last attempt ended stays.
        let record = leave(set, execution, Event::Bury, now)?;
        (record.reason, record.note) = (Some(Reason::DiscardedByUser), Some(note.to_owned()));
        record.touch(Shape::Whole);
        verdicts.push(Applied::Done);
    }
    Ok(verdicts)
}

/// An execution that `event` may happen to, or the verdict.
fn find<'s>(
    set: &'s WorkingSet<'_>,
    tenant: TenantId,
    id: ExecutionId,
    event: Event,
) -> std::result::Result<&'s Record, Applied> {
    match set.get(id).filter(|found| found.of.tenant == tenant) {
        None => Err(Applied::Gone),
        Some(found) if !lifecycle::sources(event).contains(found.state) => Err(Applied::Stale { state: found.state }),
        Some(found) => Ok(found),
    }
}

/// An execution is dead no more.
fn leave<'s>(set: &'s mut WorkingSet<'_>, id: ExecutionId, event: Event, now: Timestamp) -> Result<&'s mut Record> {
    let record = set.at(id)?;
    let (tenant, fingerprint) = (record.of.tenant, record.fingerprint.take());
    if let Some(fingerprint) = fingerprint {
        set.effects.risen.push((tenant, fingerprint, id));
    }
    set.change(id, event, (now, None), None)
}
