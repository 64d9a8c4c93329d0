//! Dead executions and the two ways out: run again, or given up.

use super::Result;
use super::record::{Record, Shape};
use super::set::{IdMap, WorkingSet};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::Firing;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, Resolve};
use campanile_model::time::Timestamp;
use std::sync::Arc;

/// The newest version of a job: what is done, where and for whom.
pub(crate) struct Newest {
    pub(crate) version: u32,
    pub(crate) firing: Arc<Firing>,
}

/// Takes executions out of the dead ones. Those that run again take the newest version of their job; `newest` are those of jobs
/// that are not deleted.
pub(crate) fn resolve(
    set: &mut WorkingSet<'_>,
    (tenant, dead, now): (TenantId, &[Resolve], Timestamp),
    newest: &IdMap<JobId, Newest>,
) -> Result<Vec<Applied>> {
    let mut verdicts = Vec::with_capacity(dead.len());
    for one in dead {
        verdicts.push(match one {
            Resolve::Replay { execution, wake_at } => replay(set, (tenant, *execution, now), *wake_at, newest)?,
            Resolve::Discard { execution, note } => discard(set, (tenant, *execution, now), note)?,
        });
    }
    Ok(verdicts)
}

fn replay(
    set: &mut WorkingSet<'_>,
    (tenant, id, now): (TenantId, ExecutionId, Timestamp),
    wake_at: Timestamp,
    newest: &IdMap<JobId, Newest>,
) -> Result<Applied> {
    let found = match find(set, tenant, id, Event::Replay) {
        Ok(found) => found,
        Err(verdict) => return Ok(verdict),
    };
    // Its job is deleted: there is nothing to run it by.
    let Some(newest) = newest.get(&found.of.job) else { return Ok(Applied::Stale { state: found.state }) };
    run_again(set, (id, wake_at), newest, now)?;
    Ok(Applied::Done)
}

/// The last attempt gets a row of its own, since the execution's row will hold the next one; and the retry policy counts from here.
fn run_again(
    set: &mut WorkingSet<'_>,
    (id, wake_at): (ExecutionId, Timestamp),
    newest: &Newest,
    now: Timestamp,
) -> Result<()> {
    let firing = &*newest.firing;
    let kept = set.at(id)?.newest_attempt();
    set.attempts.extend(kept);
    let record = leave(set, id, Event::Replay, now)?;
    let (state, tenant) = (Some(record.state), record.of.tenant);
    let pool = std::mem::replace(&mut record.of.pool, firing.pool.clone());
    record.of.target = firing.target.clone();
    (record.job_version, record.action, record.priority) = (newest.version, firing.action, firing.priority);
    // It waits for other runs of its job, whatever the policy says: neither must a replay be skipped, nor end what
    // runs.
    record.of.overlap = if firing.overlap == Overlap::Allow { Overlap::Allow } else { Overlap::BufferAll };
    record.of.first_started_at = record.first_start();
    (record.wake_at, record.attempts_from, record.losses) = (wake_at, record.attempt, 0);
    (record.reason, record.finished_at, record.outcome, record.error) = (None, None, None, None);
    (record.cancel_requested_at, record.cancel_reason) = (None, None);
    record.touch(Shape::Whole);
    let waiting = record.waiting();
    set.ready.push(waiting);
    if pool != firing.pool {
        set.effects.sums.count(tenant, &pool, state, None);
        set.effects.sums.count(tenant, &firing.pool, None, state);
    }
    Ok(())
}

fn discard(
    set: &mut WorkingSet<'_>,
    (tenant, id, now): (TenantId, ExecutionId, Timestamp),
    note: &str,
) -> Result<Applied> {
    if let Err(verdict) = find(set, tenant, id, Event::Bury) {
        return Ok(verdict);
    }
    // The instant at which its last attempt ended stays.
    let record = leave(set, id, Event::Bury, now)?;
    (record.reason, record.note) = (Some(Reason::DiscardedByUser), Some(note.to_owned()));
    record.touch(Shape::Whole);
    Ok(Applied::Done)
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
