//! The end of attempts: `complete`, and all that is one transaction with it.
//!
//! I4: only the current attempt completes. Every one is compared with its row, by the states of its event, the
//! attempt's number and its fence, while that row is locked.

use super::Locks;
use super::claims::{Judge, Judged, startable};
use super::effects::Effects;
use super::overlaps;
use super::progress::Told;
use super::sheet::{Against, KeptAttempt, Record, Shape, Sheet, job_ids, load_guards};
use crate::change::{EndedAttempt, cause, fingerprint_of};
use crate::rules::in_order;
use campanile_model::error::{Error, Kind};
use campanile_model::execution::AttemptOutcome;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::ExecutionId;
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, AttemptFence, Claim, Completion, CompletionOf, Moved};
use campanile_pg::{Done, Tx};
use futures_util::try_join;

/// Ends attempts.
pub(super) async fn complete(tx: &Tx<'_>, locks: Locks, completions: &[Completion]) -> Done<Moved> {
    let unclaimed = unclaimed(completions)?;
    let against = if unclaimed.is_empty() { Against::Runs(locks) } else { Against::Jobs(locks) };
    let mut sheet = Sheet::load(tx, against, completions.iter().map(Completion::execution)).await?;
    let wanted: Vec<&Record> = unclaimed.iter().filter_map(|claim| startable(&sheet, claim)).collect();
    let logging = completions.iter().filter(|completion| !completion.logs.is_empty()).map(Completion::execution);
    let jobs = job_ids(wanted.iter().map(|record| record.of.job));
    let (judge, guards, known, told) = try_join!(
        Judge::prepare(tx, &wanted),
        load_guards(tx, jobs),
        Effects::know(tx, &sheet, completions),
        Told::load(tx, logging),
    )?;
    sheet.guards.extend(guards);
    sheet.effects.learn(known);
    sheet.told = told;
    let mut ending = Ending { sheet, judge };
    let mut verdicts = vec![Applied::Gone; completions.len()];
    for i in in_order(completions, Completion::execution) {
        let completion = &completions[i];
        verdicts[i] = match &completion.of {
            CompletionOf::Running(fence) => ending.running(completion, fence)?,
            CompletionOf::Unclaimed(claim) => ending.unclaimed(completion, claim)?,
        };
    }
    let ready = ending.sheet.write(tx).await?;
    Ok(Moved { verdicts, ready })
}

/// The claims among the completions. Only a success needs none of its own.
fn unclaimed(completions: &[Completion]) -> Done<Vec<&Claim>> {
    let mut claims = Vec::new();
    for completion in completions {
        if let CompletionOf::Unclaimed(claim) = &completion.of {
            if completion.event != Event::Succeed {
                let message = format!("an unclaimed attempt cannot {:?}", completion.event);
                return Err(Error::new(Kind::Bug, message).into());
            }
            claims.push(claim);
        }
    }
    Ok(claims)
}

struct Ending<'b> {
    sheet: Sheet<'b>,
    judge: Judge,
}

impl<'b> Ending<'b> {
    /// Ends an attempt that was claimed.
    fn running(&mut self, completion: &'b Completion, fence: &AttemptFence) -> Done<Applied> {
        let event = completion.event;
        let Some(found) = self.sheet.get(fence.execution) else { return Ok(Applied::Gone) };
        // An attempt can only end while it runs, also by events that may happen in other states (`Cancel`).
        // river#1302: the rescuer saw it running, and writes although it has succeeded meanwhile.
        let current =
            found.runs() && lifecycle::sources(event).contains(found.state) || planted(Bug("rescuer-overwrites"));
        if !current || found.attempt != fence.attempt || found.fence != fence.fence {
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
            self.sheet.attempts.push(kept);
        }
        let record = self.change(completion, fence.execution, fence.attempt, dead)?;
        match event {
            Event::Release => release(record, completion),
            _ => end(record, completion, dead),
        }
        self.keep_rest(completion, fence.fence);
        self.give_turn_on(completion)
    }

    /// Claims and ends an attempt in one write.
    fn unclaimed(&mut self, completion: &'b Completion, claim: &Claim) -> Done<Applied> {
        // It ends at once, so that it does not matter who else of the batch comes before it.
        match self.judge.judge(&mut self.sheet, claim, true)? {
            Judged::Ready { .. } => {}
            Judged::Discarded(_) => return Ok(Applied::Stale { state: lifecycle::target(Event::Discard) }),
            Judged::Held { .. } => return Ok(Applied::Stale { state: lifecycle::target(Event::Hold) }),
            Judged::Deferred(_, state) | Judged::Early(_, state) => return Ok(Applied::Stale { state }),
            Judged::Stale(_) => return Ok(self.explain_unclaimed(completion, claim)),
            Judged::Contended | Judged::Gone => return Ok(Applied::Gone),
        };
        let fence = self.judge.fence()?;
        let record = self.sheet.at(claim.execution)?;
        // What is in the row is the attempt before this one.
        record.of.first_started_at = record.first_start();
        let record = self.change(completion, claim.execution, claim.attempt + 1, None)?;
        record.attempt += 1;
        record.fence = fence;
        record.worker = Some(claim.worker.clone());
        (record.started_at, record.finished_at) = (Some(completion.started_at), Some(completion.finished_at));
        (record.outcome, record.reason, record.error) = (Some(completion.outcome), completion.reason, None);
        (record.claimed_at, record.queued_at) = (Some(claim.now), claim.queued_at);
        record.deliveries += 1;
        record.touch(Shape::Instant);
        self.keep_rest(completion, fence);
        self.give_turn_on(completion)
    }

    /// The change of state, and what follows from it.
    fn change(
        &mut self,
        completion: &Completion,
        id: ExecutionId,
        number: u32,
        fingerprint: Option<u64>,
    ) -> Done<&mut Record> {
        let Completion { event, reason, started_at, finished_at, outcome, .. } = *completion;
        let why = fingerprint.map(|_| cause(outcome, completion.error.as_ref()));
        let error = why.as_deref().or(completion.error.as_ref());
        let attempt = EndedAttempt { number, started_at, error, fingerprint };
        self.sheet.change(id, event, (finished_at, reason), Some(attempt))
    }

    /// Keeps the response, and what was logged at last.
    fn keep_rest(&mut self, completion: &'b Completion, fence: u64) {
        let execution = completion.execution();
        if let Some(response) = &completion.response {
            self.sheet.responses.push((execution, fence, response));
        }
        self.sheet.told.log(execution, fence, &completion.logs);
    }

    /// A run that is over gives its turn on.
    fn give_turn_on(&mut self, completion: &Completion) -> Done<Applied> {
        let of = &self.sheet.at(completion.execution())?.of;
        if of.overlap != Overlap::Allow && lifecycle::target(completion.event).is_final() {
            let run = (of.job, of.id);
            overlaps::over(&mut self.sheet, run, completion.finished_at)?;
        }
        Ok(Applied::Done)
    }

    /// Why a completion of an attempt that was not claimed did not happen: its fence is not known, but who, which one
    /// and when.
    fn explain_unclaimed(&self, completion: &Completion, claim: &Claim) -> Applied {
        let Some(found) = self.sheet.get(claim.execution) else { return Applied::Gone };
        let same = found.state == lifecycle::target(completion.event)
            && found.attempt == claim.attempt + 1
            && found.worker.as_deref() == Some(&*claim.worker)
            && found.outcome == Some(completion.outcome)
            && found.finished_at == Some(completion.finished_at);
        if same { Applied::Done } else { Applied::Stale { state: found.state } }
    }
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
