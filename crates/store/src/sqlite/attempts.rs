//! The end of attempts: `complete`, and all that is one transaction with it.
//!
//! I4: only the current attempt completes. Every write is guarded by the states of its event, the attempt's number and
//! its fence, in the `WHERE` of the statement that writes.

use super::claims::{Judge, Judged};
use super::counters;
use super::effects::{self, Effects, EndedAttempt, Subject, Transition};
use super::executions::{self, Found, both};
use super::failure::{Done, expect_one};
use super::overlaps;
use super::progress;
use super::remembered;
use super::rows::Texts;
use crate::rules::in_order;
use campanile_model::error::{Error, Kind};
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::fault::{Bug, planted};
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, AttemptFence, Claim, Completion, CompletionOf, Moved, Waiting};
use rusqlite::{CachedStatement, Connection, params};

/// Ends attempts.
pub(super) fn complete(connection: &Connection, completions: &[Completion]) -> Done<Moved> {
    let unclaimed = completions.iter().filter(|c| matches!(c.of, CompletionOf::Unclaimed(_))).count();
    let mut fences = match unclaimed {
        0 => 0..,
        count => counters::take(connection, counters::FENCE, count)?..,
    };
    let mut ending = Ending::prepare(connection)?;
    let mut verdicts = vec![Applied::Gone; completions.len()];
    for i in in_order(completions, |completion| completion.execution()) {
        let completion = &completions[i];
        verdicts[i] = match &completion.of {
            CompletionOf::Running(fence) => ending.running(completion, fence)?,
            CompletionOf::Unclaimed(claim) => {
                let fence = fences.next().unwrap_or_default();
                ending.unclaimed(completion, claim, fence)?
            }
        };
    }
    let Ending { effects, mut ready, judge, .. } = ending;
    effects.apply()?;
    ready.extend(judge.ready);
    Ok(Moved { verdicts, ready })
}

struct Ending<'c> {
    connection: &'c Connection,
    effects: Effects<'c>,
    texts: Texts,
    judge: Judge<'c>,
    find: CachedStatement<'c>,
    complete: CachedStatement<'c>,
    complete_unclaimed: CachedStatement<'c>,
    complete_unjudged: CachedStatement<'c>,
    insert_attempt: CachedStatement<'c>,
    put_response: CachedStatement<'c>,
    ready: Vec<Waiting>,
}

impl<'c> Ending<'c> {
    fn prepare(connection: &'c Connection) -> Done<Self> {
        Ok(Self {
            connection,
            effects: Effects::new(connection),
            texts: Texts::default(),
            judge: Judge::prepare(connection, include_str!("sql/attempts/judge.sql"))?,
            find: connection.prepare_cached(executions::FIND)?,
            complete: connection.prepare_cached(include_str!("sql/attempts/complete.sql"))?,
            complete_unclaimed: connection.prepare_cached(include_str!("sql/attempts/complete_unclaimed.sql"))?,
            complete_unjudged: connection.prepare_cached(include_str!("sql/attempts/complete_unjudged.sql"))?,
            insert_attempt: connection.prepare_cached(include_str!("sql/attempts/insert.sql"))?,
            put_response: connection.prepare_cached(include_str!("sql/attempts/put_response.sql"))?,
            ready: Vec::new(),
        })
    }

    /// Ends an attempt that was claimed.
    fn running(&mut self, completion: &Completion, fence: &AttemptFence) -> Done<Applied> {
        let event = completion.event;
        // An attempt can only end while it runs, also by events that may happen in other states (`Cancel`).
        let mut sources = both(lifecycle::sources(event), lifecycle::sources(Event::Succeed));
        if planted(Bug("success-over-cancelled")) {
            // trinity#681: the last one to write is right.
            sources |= 1 << State::Cancelled.code();
        }
        if let Some(of) = remembered::take(fence.execution, fence.fence)
            && lifecycle::target(event).is_final()
            && let (true, fingerprint) = self.end(completion, fence, sources, &of.target)?
        {
            self.keep_rest(completion, fence.fence)?;
            return self.follow(completion, (&of, lifecycle::target(Event::Claim)), fence.attempt, fingerprint);
        }
        let found = executions::find_by(&mut self.find, fence.execution, &mut self.texts)?;
        let Some(found) = found else { return Ok(Applied::Gone) };
        let newest = AttemptFence { attempt: found.attempt, fence: found.fence, ..*fence };
        let fence = if planted(Bug("fence_unchecked")) { &newest } else { fence };
        let current = sources & 1 << found.state.code() != 0 && found.attempt == fence.attempt;
        if !current || found.fence != fence.fence {
            return Ok(explain(completion, fence.fence, &found));
        }
        if found.cancel_requested_at.is_some() && !lifecycle::target(event).is_final() {
            // Whoever settled it had not seen that it was asked to stop.
            return Ok(Applied::Stale { state: found.state });
        }
        let (changed, fingerprint) = match event {
            Event::Release => (self.release(completion, fence, sources)?, None),
            _ => self.end(completion, fence, sources, &found.of.target)?,
        };
        expect_one(usize::from(changed), fence.execution)?;
        if !lifecycle::target(event).is_final() && event != Event::Release {
            self.keep_attempt(completion, fence)?;
        }
        self.keep_rest(completion, fence.fence)?;
        self.follow(completion, (&found.of, found.state), fence.attempt, fingerprint)
    }

    /// The write of an attempt's end. Says whether it happened, and the group that the execution belongs to, if it is dead.
    fn end(
        &mut self,
        completion: &Completion,
        fence: &AttemptFence,
        sources: u16,
        target: &str,
    ) -> Done<(bool, Option<u64>)> {
        let dead = (completion.event == Event::FailFinal).then(|| {
            let cause = effects::cause(completion.outcome, completion.error.as_ref());
            effects::fingerprint_of(target, &cause)
        });
        let s = &mut self.complete;
        s.raw_bind_parameter(1, fence.execution.as_bytes())?;
        s.raw_bind_parameter(2, sources)?;
        s.raw_bind_parameter(3, fence.attempt)?;
        s.raw_bind_parameter(4, fence.fence as i64)?;
        s.raw_bind_parameter(5, lifecycle::target(completion.event).code())?;
        s.raw_bind_parameter(6, completion.reason.map(Reason::code))?;
        s.raw_bind_parameter(7, completion.attempt)?;
        s.raw_bind_parameter(8, completion.wake_at.millis())?;
        s.raw_bind_parameter(9, completion.started_at.millis())?;
        s.raw_bind_parameter(10, completion.finished_at.millis())?;
        s.raw_bind_parameter(11, completion.outcome.code())?;
        s.raw_bind_parameter(12, completion.error.as_ref().map(|error| &*error.kind))?;
        s.raw_bind_parameter(13, completion.error.as_ref().map(|error| &*error.message))?;
        s.raw_bind_parameter(14, u8::from(completion.outcome == AttemptOutcome::WorkerLost))?;
        s.raw_bind_parameter(15, dead.map(|fingerprint| fingerprint as i64))?;
        Ok((s.raw_execute()? == 1, dead))
    }

    /// The write of an attempt that was given back: as if it had never been handed out, but for the count of that.
    fn release(&mut self, completion: &Completion, fence: &AttemptFence, sources: u16) -> Done<bool> {
        let changed = self.connection.prepare_cached(include_str!("sql/attempts/release.sql"))?.execute(params![
            fence.execution.as_bytes(),
            sources,
            fence.attempt,
            fence.fence as i64,
            lifecycle::target(completion.event).code(),
            completion.reason.map(Reason::code),
            completion.attempt,
            completion.wake_at.millis(),
            completion.finished_at.millis(),
            completion.outcome.code(),
        ])?;
        Ok(changed == 1)
    }

    /// Claims and ends an attempt in one write.
    fn unclaimed(&mut self, completion: &Completion, claim: &Claim, fence: u64) -> Done<Applied> {
        if completion.event != Event::Succeed {
            let message = format!("an unclaimed attempt cannot {:?}", completion.event);
            return Err(Error::new(Kind::Bug, message).into());
        }
        if claim.attempt == 0
            && let Some(of) = remembered::take(claim.execution, 0)
            && !self.judge.pools.is_limited(self.connection, of.tenant, &of.pool)?
            && self.end_unclaimed(completion, claim, fence, true)?
        {
            self.keep_rest(completion, fence)?;
            return self.follow(completion, (&of, lifecycle::target(Event::Refire)), 1, None);
        }
        let mut judged = self.judge.judge(&mut self.effects, claim, false, |_, _| Ok(()))?;
        // It ends at once, so that it does not matter who else of the batch comes before it.
        if matches!(judged, Judged::Contended) {
            judged = self.judge.judge(&mut self.effects, claim, true, |_, _| Ok(()))?;
        }
        let mut current = match judged {
            Judged::Ready { candidate, .. } => candidate,
            Judged::Discarded(_) => return Ok(Applied::Stale { state: lifecycle::target(Event::Discard) }),
            Judged::Held { .. } => return Ok(Applied::Stale { state: lifecycle::target(Event::Hold) }),
            Judged::Deferred(_, state) | Judged::Early(_, state) => return Ok(Applied::Stale { state }),
            Judged::Stale(_) => return self.explain_unclaimed(completion, claim),
            Judged::Contended | Judged::Gone => return Ok(Applied::Gone),
        };
        let changed = self.end_unclaimed(completion, claim, fence, false)?;
        expect_one(usize::from(changed), claim.execution)?;
        self.keep_rest(completion, fence)?;
        // What is in the row is the attempt before this one.
        current.of.first_started_at = current.first_start();
        self.follow(completion, (&current.of, current.state), claim.attempt + 1, None)
    }

    /// The write of it, if it is in a state to start. With `unjudged`, nobody has looked whether it may: then only if it has never
    /// begun, its time has come, and its job is as it was when it fired. Says whether it happened.
    fn end_unclaimed(&mut self, completion: &Completion, claim: &Claim, fence: u64, unjudged: bool) -> Done<bool> {
        let s = if unjudged { &mut self.complete_unjudged } else { &mut self.complete_unclaimed };
        s.raw_bind_parameter(1, claim.execution.as_bytes())?;
        s.raw_bind_parameter(2, lifecycle::sources(Event::Claim).mask())?;
        s.raw_bind_parameter(3, claim.attempt)?;
        s.raw_bind_parameter(4, lifecycle::target(completion.event).code())?;
        s.raw_bind_parameter(5, fence as i64)?;
        s.raw_bind_parameter(6, &*claim.worker)?;
        s.raw_bind_parameter(7, completion.started_at.millis())?;
        s.raw_bind_parameter(8, completion.finished_at.millis())?;
        s.raw_bind_parameter(9, completion.outcome.code())?;
        s.raw_bind_parameter(10, completion.reason.map(Reason::code))?;
        s.raw_bind_parameter(11, claim.now.millis())?;
        s.raw_bind_parameter(12, claim.queued_at.map(|at| at.millis()))?;
        if unjudged {
            s.raw_bind_parameter(13, JobState::Deleted.code())?;
        }
        Ok(s.raw_execute()? == 1)
    }

    /// What follows from the end of an attempt.
    fn follow(
        &mut self,
        completion: &Completion,
        (of, from): (&Subject, State),
        number: u32,
        fingerprint: Option<u64>,
    ) -> Done<Applied> {
        let Completion { event, reason, started_at, finished_at, .. } = *completion;
        let cause;
        let error = match (&completion.error, fingerprint) {
            (None, Some(_)) => {
                cause = effects::cause(completion.outcome, None);
                Some(&*cause)
            }
            (error, _) => error.as_ref(),
        };
        let attempt = Some(EndedAttempt { number, started_at, error, fingerprint });
        let from = Some(from);
        self.effects.note(&Transition { of, from, event, at: finished_at, reason, attempt })?;
        if of.overlap != Overlap::Allow && lifecycle::target(event).is_final() {
            overlaps::over(&mut self.effects, (of.job, of.id), finished_at, &mut self.ready)?;
        }
        Ok(Applied::Done)
    }

    /// Keeps an attempt that another one follows; the execution's row will hold that one.
    fn keep_attempt(&mut self, completion: &Completion, fence: &AttemptFence) -> Done<()> {
        let changed = self.insert_attempt.execute(params![
            fence.execution.as_bytes(),
            fence.fence as i64,
            fence.attempt,
            completion.started_at.millis(),
            completion.finished_at.millis(),
            completion.outcome.code(),
            completion.error.as_ref().map(|error| &*error.kind),
            completion.error.as_ref().map(|error| &*error.message),
        ])?;
        expect_one(changed, fence.execution)
    }

    /// Keeps the response, and what was logged at last.
    fn keep_rest(&mut self, completion: &Completion, fence: u64) -> Done<()> {
        let execution = completion.execution();
        if let Some(response) = &completion.response {
            let changed = self.put_response.execute(params![
                execution.as_bytes(),
                fence as i64,
                response.status,
                response.truncated,
                response.body,
            ])?;
            expect_one(changed, execution)?;
        }
        progress::log(self.connection, execution, fence, &completion.logs)
    }

    /// Why a completion of an attempt that was not claimed did not happen: its fence is not known, but who, which one and when.
    fn explain_unclaimed(&mut self, completion: &Completion, claim: &Claim) -> Done<Applied> {
        let found = executions::find_by(&mut self.find, claim.execution, &mut self.texts)?;
        let Some(found) = found else { return Ok(Applied::Gone) };
        let same = found.state == lifecycle::target(completion.event)
            && found.attempt == claim.attempt + 1
            && found.worker.as_deref() == Some(&*claim.worker)
            && found.outcome == Some(completion.outcome)
            && found.finished_at == Some(completion.finished_at);
        Ok(if same { Applied::Done } else { Applied::Stale { state: found.state } })
    }
}

/// Why a completion did not happen. The same one again, after an answer that was lost, is done.
fn explain(completion: &Completion, fence: u64, found: &Found) -> Applied {
    let same = found.state == lifecycle::target(completion.event)
        && found.fence == fence
        && found.outcome == Some(completion.outcome)
        && found.finished_at == Some(completion.finished_at);
    if same { Applied::Done } else { Applied::Stale { state: found.state } }
}
