//! Claims: whether an execution may start, and its start.
//!
//! A claim is judged in this order: state, number of attempts, instant; whether its job still wants it
//! (`discard_reason`); whether its pool has room; whether another run of its job is in its way (`overlap::decide`). The
//! last two depend on who came before. So a batch is judged twice: first, in the order of ids, those to which neither
//! applies, which are nearly all; then the others, in the order of the batch.

use super::overlap::{self, Turn};
use super::record::{Record, Shape};
use super::rules::{after, in_order, lease_ms, time_limit_ms};
use super::set::WorkingSet;
use super::{Result, missing};
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::notify::WatchKind;
use campanile_model::overlap::Overlap;
use campanile_model::store::{AttemptFence, Claim, Claimed, Granted, Waiting};
use campanile_model::time::Timestamp;

/// Starts attempts. The set has the executions with their runs; of those that are `startable`, also the versions
/// of their jobs, limits of pools, a fence each, first starts and checkpoints.
pub(crate) fn claim(set: &mut WorkingSet<'_>, claims: &[Claim]) -> Result<Vec<Claimed>> {
    let mut verdicts: Vec<Option<Claimed>> = vec![None; claims.len()];
    let mut contended = Vec::new();
    for i in in_order(claims, |claim| claim.execution) {
        match claim_one(set, &claims[i], false)? {
            Some(verdict) => verdicts[i] = Some(verdict),
            None => contended.push(i),
        }
    }
    contended.sort_unstable();
    for i in contended {
        verdicts[i] = claim_one(set, &claims[i], true)?;
    }
    Ok(verdicts.into_iter().flatten().collect())
}

/// Starts an attempt, or says why not; `None` when it depends on who comes before it, and `last` is not set.
fn claim_one(set: &mut WorkingSet<'_>, claim: &Claim, last: bool) -> Result<Option<Claimed>> {
    Ok(Some(match judge(set, claim, last)? {
        Judged::Ready { terminated } => {
            let mut granted = grant(set, claim)?;
            granted.terminated = terminated;
            begin(set, claim, &granted)?;
            Claimed::Granted(Box::new(granted))
        }
        Judged::Contended => return Ok(None),
        Judged::Discarded(reason) => Claimed::Discarded(reason),
        Judged::Held { by, cancel } => Claimed::Held { by, cancel },
        Judged::Deferred(reason, _) => Claimed::Deferred(reason),
        Judged::Early(wake_at, _) => Claimed::Early { wake_at },
        Judged::Stale(state) => Claimed::Stale { state },
        Judged::Gone => Claimed::Gone,
    }))
}

/// The execution of a claim, if it is in a state to start and is what the claimer was sent for: of the others nothing more is
/// loaded.
pub(crate) fn startable<'s>(set: &'s WorkingSet<'_>, claim: &Claim) -> Option<&'s Record> {
    let record = set.get(claim.execution)?;
    let mut allowed = lifecycle::sources(Event::Claim).contains(record.state);
    // rq#1669: what was cancelled after it was queued starts all the same.
    allowed |= record.state == State::Cancelled && planted(Bug("starts-after-cancel"));
    // rq#580: what somebody has begun is begun again.
    let taken = record.runs() && planted(Bug("claim_unguarded"));
    // quartz#29: a trigger that was fired and set again in between is taken for the one that was read.
    let same = record.attempt == claim.attempt || planted(Bug("claim-of-any-attempt"));
    // One that another version has fired anew may be for another runner.
    let same = same && record.job_version == claim.job_version;
    (taken || allowed && same).then_some(record)
}

/// The execution of a claim that was sent for what an older version said, if it waits to be started for the version that has taken it
/// over. Whoever was sent for that may have been turned away because of this one, so it is sent for again.
fn taken_over(set: &WorkingSet<'_>, claim: &Claim) -> Option<Waiting> {
    let record = set.get(claim.execution)?;
    let waits = lifecycle::sources(Event::Claim).contains(record.state) && record.attempt == claim.attempt;
    (waits && record.job_version > claim.job_version).then(|| record.waiting())
}

/// The answer to whether an execution may start.
pub(super) enum Judged {
    /// It may; another run was ended for it.
    Ready {
        terminated: Option<ExecutionId>,
    },
    /// It depends on who comes before it: ask again.
    Contended,
    Discarded(Reason),
    /// It waits for another run, which was asked to stop or not.
    Held {
        by: ExecutionId,
        cancel: bool,
    },
    /// It may not start now.
    Deferred(Reason, State),
    /// Its time has not come.
    Early(Timestamp, State),
    /// It cannot start in this state.
    Stale(State),
    /// There is none.
    Gone,
}

/// Judges a claim. One that must not run any more is skipped here, and one that must wait is held. What depends on who
/// comes before it is judged only when `last` is set.
pub(super) fn judge(set: &mut WorkingSet<'_>, claim: &Claim, last: bool) -> Result<Judged> {
    let Some(record) = set.get(claim.execution) else { return Ok(Judged::Gone) };
    let state = record.state;
    // Sketch S1: the row is there, so somebody else must have been faster.
    if startable(set, claim).is_none() || planted(Bug("claim-by-insert")) {
        let again = taken_over(set, claim);
        set.ready.extend(again);
        return Ok(Judged::Stale(state));
    }
    let taken = record.runs() && planted(Bug("claim_unguarded"));
    if record.wake_at > claim.now && !taken && !planted(Bug("early_unguarded")) {
        return Ok(Judged::Early(record.wake_at, state));
    }
    let of = &record.of;
    let pool = set.pools.iter().find(|pool| pool.is(of.tenant, &of.pool));
    if (of.overlap != Overlap::Allow || pool.is_some()) && !last {
        return Ok(Judged::Contended);
    }
    if !set.is_unchanged_since_fire(claim)
        && let Some(reason) = set.stale(record)
    {
        overlap::end(set, claim.execution, Event::Discard, (reason, None), claim.now)?;
        return Ok(Judged::Discarded(reason));
    }
    if let Some(reason) = pool.and_then(|pool| pool.refuses(set)) {
        return Ok(Judged::Deferred(reason, state));
    }
    if of.overlap == Overlap::Allow {
        return Ok(Judged::Ready { terminated: None });
    }
    let run = (of.overlap, of.job, of.id);
    match overlap::take_turn(set, run, claim.now)? {
        Turn::Start { terminated } => Ok(Judged::Ready { terminated }),
        Turn::Skip(reason) => {
            overlap::end(set, claim.execution, Event::Discard, (reason, None), claim.now)?;
            Ok(Judged::Discarded(reason))
        }
        Turn::Wait { by, cancel } => {
            hold(set, claim.execution, claim.now)?;
            Ok(Judged::Held { by, cancel })
        }
    }
}

/// It waits for another run of its job.
fn hold(set: &mut WorkingSet<'_>, id: ExecutionId, now: Timestamp) -> Result<()> {
    let reason = Some(Reason::DependencyWaiting);
    let record = set.change(id, Event::Hold, (now, reason), None)?;
    record.reason = reason;
    record.touch(Shape::Whole);
    let job = record.of.job;
    set.runs.enter(job, id, false);
    Ok(())
}

/// What a runner gets.
fn grant(set: &mut WorkingSet<'_>, claim: &Claim) -> Result<Granted> {
    let fence = set.fence()?;
    let record = set.get(claim.execution).ok_or_else(|| missing("execution"))?;
    let of = &record.of;
    let definition = set.definition(record).ok_or_else(|| missing("version of a job"))?.clone();
    let first_started_at = set.first_start(record).unwrap_or(claim.now);
    let total_ms = definition.retry.total_timeout_ms;
    let timeout_ms = time_limit_ms(definition.timeout_ms, total_ms, first_started_at, claim.now);
    Ok(Granted {
        fence: AttemptFence { execution: of.id, attempt: claim.attempt + 1, fence },
        tenant: of.tenant,
        job: of.job,
        job_version: record.job_version,
        definition,
        timeout_ms,
        fire_at: of.fire_at,
        lease_until: after(claim.now, lease_ms(claim.lease, timeout_ms)),
        covers_from: record.covers_from,
        attempts_from: record.attempts_from,
        losses: record.losses,
        first_started_at,
        checkpoint: set.checkpoints.get(&of.id).cloned(),
        terminated: None,
    })
}

/// The start of an attempt.
fn begin(set: &mut WorkingSet<'_>, claim: &Claim, granted: &Granted) -> Result<()> {
    let record = set.change(claim.execution, Event::Claim, (claim.now, None), None)?;
    let first = record.first_start();
    record.of.first_started_at = first;
    record.attempt += 1;
    record.fence = granted.fence.fence;
    record.worker = Some(claim.worker.clone());
    (record.claimed_at, record.started_at) = (Some(claim.now), Some(claim.now));
    (record.wake_at, record.queued_at) = (granted.lease_until, claim.queued_at);
    record.deliveries += 1;
    (record.reason, record.finished_at, record.outcome, record.error) = (None, None, None, None);
    (record.cancel_requested_at, record.cancel_reason) = (None, None);
    record.touch(Shape::Started);
    let (id, job, overlap, watched) = (record.of.id, record.of.job, record.of.overlap, record.of.watched);
    if overlap != Overlap::Allow {
        set.runs.enter(job, id, true);
    }
    if watched & 1 << WatchKind::Start.code() != 0 && first.is_none() {
        set.effects.watches.started(id);
    }
    Ok(())
}
