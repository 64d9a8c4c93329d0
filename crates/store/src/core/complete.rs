//! The end of attempts: `complete`, and all that is one transaction with it.
//!
//! I4: only the current attempt completes. Every one is compared with its record, by the states of its event, the
//! attempt's number and its fence.

use super::Result;
use super::change::{EndedAttempt, cause, fingerprint_of};
use super::claim::{Judged, judge};
use super::overlap;
use super::record::{KeptAttempt, Record, Shape};
use super::rules::in_order;
use super::set::WorkingSet;
use campanile_model::error::{Error, Kind};
use campanile_model::execution::AttemptOutcome;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, AttemptFence, Claim, Completion, CompletionOf};

/// A response with a longer body has a row of its own.
const INLINE_BYTES_MAX: usize = 256;

/// The claims among completions, which need what claims need. Only a success needs no claim of its own.
pub(crate) fn unclaimed(completions: &[Completion]) -> Result<Vec<&Claim>> {
    let mut claims = Vec::new();
    for completion in completions {
        if let CompletionOf::Unclaimed(claim) = &completion.of {
            if completion.event != Event::Succeed {
                return Err(Error::new(Kind::Bug, format!("an unclaimed attempt cannot {:?}", completion.event)));
            }
            claims.push(claim);
        }
    }
    Ok(claims)
}

/// The execution of a claim among completions, if it may start within the batch: also one that waits for another run, since a
/// completion before it may end that. Of these the backend loads what a claim needs.
pub(crate) fn may_start<'s>(set: &'s WorkingSet<'_>, claim: &Claim) -> Option<&'s Record> {
    set.get(claim.execution).filter(|record| !record.state.is_final())
}

/// The jobs whose versions are needed: of claims among completions, but not of what nobody has changed since it was fired. Whose runs
/// may not overlap is always looked at: the end of one may let another one start that was not looked at for itself.
pub(crate) fn jobs_to_judge(set: &WorkingSet<'_>, unclaimed: &[&Claim]) -> Vec<JobId> {
    let job = |claim: &&Claim| {
        let of = &may_start(set, claim)?.of;
        (of.overlap != Overlap::Allow || !set.is_unchanged_since_fire(claim)).then_some(of.job)
    };
    unclaimed.iter().filter_map(job).collect()
}

/// Ends attempts. The set has the executions with their runs, what `effects::Preload` asks for, and how many lines
/// those have that log; of those that `may_start`, also limits of pools and a fence each, and the versions of `jobs_to_judge`.
pub(crate) fn complete<'b>(set: &mut WorkingSet<'b>, completions: &'b [Completion]) -> Result<Vec<Applied>> {
    let mut verdicts = vec![Applied::Gone; completions.len()];
    for i in in_order(completions, Completion::execution) {
        let completion = &completions[i];
        verdicts[i] = match &completion.of {
            CompletionOf::Running(fence) => end_running(set, completion, fence)?,
            CompletionOf::Unclaimed(claim) => end_unclaimed(set, completion, claim)?,
        };
    }
    Ok(verdicts)
}

/// Ends an attempt that was claimed.
fn end_running<'b>(set: &mut WorkingSet<'b>, completion: &'b Completion, fence: &AttemptFence) -> Result<Applied> {
    let event = completion.event;
    let Some(found) = set.get(fence.execution) else { return Ok(Applied::Gone) };
    let newest = AttemptFence { attempt: found.attempt, fence: found.fence, ..*fence };
    let fence = if planted(Bug("fence_unchecked")) { &newest } else { fence };
    if !may_end(found, event) || found.attempt != fence.attempt || found.fence != fence.fence {
        return Ok(explain(completion, fence.fence, found));
    }
    if found.cancel_requested_at.is_some() && !lifecycle::target(event).is_final() {
        // Whoever settled it had not seen that it was asked to stop.
        return Ok(Applied::Stale { state: found.state });
    }
    let dead = (event == Event::FailFinal).then(|| {
        let cause = cause(completion.outcome, completion.error.as_ref());
        fingerprint_of(&found.of.target, &cause)
    });
    if !lifecycle::target(event).is_final() && event != Event::Release {
        let kept = kept(completion, fence, found);
        set.attempts.push(kept);
    }
    let record = change(set, completion, fence.execution, (fence.attempt, dead))?;
    match event {
        Event::Release => release(record, completion),
        _ => end(record, completion, dead),
    }
    keep_rest(set, completion, fence.fence)?;
    give_turn_on(set, completion)
}

/// Whether an attempt may end by this event: only while it runs, also by events that may happen in other states
/// (`Cancel`).
fn may_end(found: &Record, event: Event) -> bool {
    // river#1302: the rescuer saw it running, and writes although it has succeeded meanwhile.
    // trinity#681: the last one to write is right.
    let overwrites =
        planted(Bug("rescuer-overwrites")) || found.state == State::Cancelled && planted(Bug("success-over-cancelled"));
    found.runs() && lifecycle::sources(event).contains(found.state) || overwrites
}

/// Claims and ends an attempt in one write.
fn end_unclaimed<'b>(set: &mut WorkingSet<'b>, completion: &'b Completion, claim: &Claim) -> Result<Applied> {
    // It ends at once, so that it does not matter who else of the batch comes before it.
    match judge(set, claim, true)? {
        Judged::Ready { .. } => {}
        Judged::Discarded(_) => return Ok(Applied::Stale { state: lifecycle::target(Event::Discard) }),
        Judged::Held { .. } => return Ok(Applied::Stale { state: lifecycle::target(Event::Hold) }),
        Judged::Deferred(_, state) | Judged::Early(_, state) => return Ok(Applied::Stale { state }),
        Judged::Stale(_) => return Ok(explain_unclaimed(set, completion, claim)),
        Judged::Contended | Judged::Gone => return Ok(Applied::Gone),
    };
    let fence = set.fence()?;
    let record = set.at(claim.execution)?;
    // What is in the record is the attempt before this one.
    record.of.first_started_at = record.first_start();
    let record = change(set, completion, claim.execution, (claim.attempt + 1, None))?;
    record.attempt += 1;
    record.fence = fence;
    record.worker = Some(claim.worker.clone());
    (record.started_at, record.finished_at) = (Some(completion.started_at), Some(completion.finished_at));
    (record.outcome, record.reason, record.error) = (Some(completion.outcome), completion.reason, None);
    (record.claimed_at, record.queued_at) = (Some(claim.now), claim.queued_at);
    record.deliveries += 1;
    record.touch(Shape::Instant);
    keep_rest(set, completion, fence)?;
    give_turn_on(set, completion)
}

/// The change of state, and what follows from it.
fn change<'s>(
    set: &'s mut WorkingSet<'_>,
    completion: &Completion,
    id: ExecutionId,
    (number, fingerprint): (u32, Option<u64>),
) -> Result<&'s mut Record> {
    let Completion { event, reason, started_at, finished_at, outcome, .. } = *completion;
    let why = fingerprint.map(|_| cause(outcome, completion.error.as_ref()));
    let error = why.as_deref().or(completion.error.as_ref());
    let attempt = EndedAttempt { number, started_at, error, fingerprint };
    set.change(id, event, (finished_at, reason), Some(attempt))
}

/// Keeps the response, and what was logged at last. A small response of a success stands in the execution's own row, which is
/// written anyway: no attempt follows that would need the place.
fn keep_rest<'b>(set: &mut WorkingSet<'b>, completion: &'b Completion, fence: u64) -> Result<()> {
    let execution = completion.execution();
    if let Some(response) = &completion.response {
        let record = set.at(execution)?;
        let is_small = response.body.len() <= INLINE_BYTES_MAX && !response.truncated;
        if is_small && record.state == State::Succeeded && record.changed == Some(Shape::Ended) {
            record.response = Some(response.clone());
        } else {
            set.responses.push((execution, fence, response));
        }
    }
    set.reports.log(execution, fence, &completion.logs);
    Ok(())
}

/// A run that is over gives its turn on.
fn give_turn_on(set: &mut WorkingSet<'_>, completion: &Completion) -> Result<Applied> {
    let of = &set.at(completion.execution())?.of;
    if of.overlap != Overlap::Allow && lifecycle::target(completion.event).is_final() {
        let run = (of.job, of.id);
        overlap::give_turn_on(set, run, completion.finished_at)?;
    }
    Ok(Applied::Done)
}

/// The columns of an attempt that ended.
fn end(record: &mut Record, completion: &Completion, fingerprint: Option<u64>) {
    (record.reason, record.attempt, record.wake_at) = (completion.reason, completion.attempt, completion.wake_at);
    (record.started_at, record.finished_at) = (Some(completion.started_at), Some(completion.finished_at));
    (record.outcome, record.error) = (Some(completion.outcome), completion.error.clone());
    record.losses += u32::from(completion.outcome == AttemptOutcome::WorkerLost);
    record.fingerprint = fingerprint;
    record.touch(Shape::Ended);
}

/// The columns of an attempt that was given back: as if it had never been handed out, but for the count of that.
fn release(record: &mut Record, completion: &Completion) {
    (record.reason, record.attempt, record.wake_at) = (completion.reason, completion.attempt, completion.wake_at);
    (record.finished_at, record.outcome) = (Some(completion.finished_at), Some(completion.outcome));
    (record.worker, record.queued_at, record.claimed_at, record.started_at) = (None, None, None, None);
    record.touch(Shape::Whole);
}

/// An attempt that another one follows; the execution's row will hold that one.
fn kept(completion: &Completion, fence: &AttemptFence, found: &Record) -> KeptAttempt {
    KeptAttempt {
        execution: fence.execution,
        fence: fence.fence,
        tenant: found.of.tenant.0,
        attempt: fence.attempt,
        worker: found.worker.clone(),
        started_at: completion.started_at,
        finished_at: completion.finished_at,
        outcome: completion.outcome,
        error: completion.error.clone(),
    }
}

/// Why a completion did not happen. The same one again, after an answer that was lost, is done.
fn explain(completion: &Completion, fence: u64, found: &Record) -> Applied {
    let same = found.state == lifecycle::target(completion.event)
        && found.fence == fence
        && found.outcome == Some(completion.outcome)
        && found.finished_at == Some(completion.finished_at);
    if same { Applied::Done } else { Applied::Stale { state: found.state } }
}

/// Why a completion of an attempt that was not claimed did not happen: its fence is not known, but who, which one and
/// when.
fn explain_unclaimed(set: &WorkingSet<'_>, completion: &Completion, claim: &Claim) -> Applied {
    let Some(found) = set.get(claim.execution) else { return Applied::Gone };
    let same = found.state == lifecycle::target(completion.event)
        && found.attempt == claim.attempt + 1
        && found.worker.as_deref() == Some(&*claim.worker)
        && found.outcome == Some(completion.outcome)
        && found.finished_at == Some(completion.finished_at);
    if same { Applied::Done } else { Applied::Stale { state: found.state } }
}
