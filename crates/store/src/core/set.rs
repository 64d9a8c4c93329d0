//! The working set of a batch: everything that it is about, in memory. A backend fills it, the verbs judge and change it
//! in the order of the batch, and the backend writes what has changed.

use super::change::{EndedAttempt, Transition};
use super::effects::Effects;
use super::overlap::Runs;
use super::pools::Pool;
use super::record::{KeptAttempt, Record, Shape};
use super::reports::Reports;
use super::{Result, missing};
use campanile_model::error::{Error, Kind};
use campanile_model::execution::{AttemptOutcome, Reason, Response};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::job::Definition;
use campanile_model::job::version::{InForce, discard_reason};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{ChangeSeq, Claim, Waiting};
use campanile_model::time::Timestamp;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// What a batch reads and writes.
#[derive(Default)]
pub(crate) struct WorkingSet<'b> {
    /// Boxed: they are large, and go from batch to batch where a store keeps them.
    records: IdMap<ExecutionId, Box<Record>>,
    /// The last write that changed a job which was there, where it was looked up.
    pub(crate) last_change: Option<ChangeSeq>,
    /// The newest versions of jobs, of what may start and is not known to be as it was fired.
    pub(crate) newest: IdMap<JobId, InForce>,
    /// The superseded versions that govern executions which may start, where it is not the newest (`FiredUnder::needs_older`).
    pub(crate) governing: IdMap<ExecutionId, InForce>,
    /// What attempts run by, of what may start; and what limits the attempts that run.
    pub(crate) definitions: IdMap<(JobId, u32), Arc<Definition>>,
    /// Pools that have limits, of what may start.
    pub(crate) pools: Vec<Pool>,
    /// Fences that nobody has had, one for each that may start.
    pub(crate) fences: std::vec::IntoIter<u64>,
    /// When the first attempt after its replay started, of those that were replayed and tried since.
    pub(crate) first_starts: HashMap<ExecutionId, Timestamp>,
    /// The checkpoints that next attempts are given.
    pub(crate) checkpoints: HashMap<ExecutionId, Arc<str>>,
    /// Runs that may not overlap.
    pub(crate) runs: Runs,
    /// What follows from the changes.
    pub(crate) effects: Effects,
    /// What attempts report about themselves.
    pub(crate) reports: Reports<'b>,
    /// Attempts that get a row of their own.
    pub(crate) attempts: Vec<KeptAttempt>,
    /// What targets answered, by execution and fence.
    pub(crate) responses: Vec<(ExecutionId, u64, &'b Response)>,
    /// Executions that wait from now on and did not before.
    pub(crate) ready: Vec<Waiting>,
}

/// A map by an id. The last half of an id is random, a hash, or, in tests, a number: one multiplication spreads all of them.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A set of ids.
pub(crate) type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

/// Makes the hash of the last eight bytes.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk() {
            let spread = u64::from_le_bytes(*last).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = spread ^ spread >> 32;
        }
    }
}

impl<'b> WorkingSet<'b> {
    /// Makes room for so many executions.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.records.reserve(count);
    }

    /// Adds an execution that was loaded.
    pub(crate) fn insert(&mut self, record: Box<Record>) {
        self.records.insert(record.of.id, record);
    }

    /// An execution, if there is one.
    pub(crate) fn get(&self, id: ExecutionId) -> Option<&Record> {
        self.records.get(&id).map(|record| &**record)
    }

    /// An execution that must be there.
    pub(super) fn at(&mut self, id: ExecutionId) -> Result<&mut Record> {
        self.records.get_mut(&id).map(|record| &mut **record).ok_or_else(|| missing("execution"))
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values().map(|record| &**record)
    }

    /// Takes all executions out, for whoever keeps them after the batch.
    pub(crate) fn take_records(&mut self) -> impl Iterator<Item = Box<Record>> + use<> {
        std::mem::take(&mut self.records).into_values()
    }

    /// Those that the batch has changed, in the order of their ids.
    pub(crate) fn changed(&self) -> Vec<&Record> {
        let mut changed: Vec<&Record> = self.records().filter(|record| record.changed.is_some()).collect();
        changed.sort_unstable_by_key(|record| record.of.id);
        changed
    }

    /// The tenant of an execution of the batch.
    pub(crate) fn tenant(&self, id: ExecutionId) -> u32 {
        self.get(id).map_or(0, |record| record.of.tenant.0)
    }

    /// A fence that nobody has had.
    pub(super) fn fence(&mut self) -> Result<u64> {
        self.fences.next().ok_or_else(|| missing("fence"))
    }

    /// Whether nobody has changed a job since a claim's execution was fired: then the version that fired it is the newest of its job.
    /// The execution must be what the claimer was sent for.
    pub(super) fn is_unchanged_since_fire(&self, claim: &Claim) -> bool {
        self.last_change.is_some_and(|last| claim.as_of.covers(last))
    }

    /// Why an execution must not run, by the versions of its job.
    pub(super) fn stale(&self, record: &Record) -> Option<Reason> {
        let Some(newest) = self.newest.get(&record.of.job) else { return Some(Reason::JobDeleted) };
        discard_reason(&record.fired_under(), newest, self.governing.get(&record.of.id))
    }

    /// What an execution runs by: its own version of its job.
    pub(super) fn definition(&self, record: &Record) -> Option<&Arc<Definition>> {
        if planted(Bug("attempt-takes-the-newest")) {
            let newest = self.newest.get(&record.of.job)?;
            return self.definitions.get(&(record.of.job, newest.version));
        }
        self.definitions.get(&(record.of.job, record.job_version))
    }

    /// When the first attempt of an execution started that counts: those before a replay do not.
    pub(super) fn first_start(&self, record: &Record) -> Option<Timestamp> {
        match record.attempts_from {
            0 => record.first_start(),
            _ => self.first_starts.get(&record.of.id).copied(),
        }
    }

    /// Changes the state of an execution by an event that may happen to it, and notes what follows. The other columns
    /// are the caller's.
    pub(super) fn change(
        &mut self,
        id: ExecutionId,
        event: Event,
        (at, reason): (Timestamp, Option<Reason>),
        attempt: Option<EndedAttempt<'_>>,
    ) -> Result<&mut Record> {
        let record = self.records.get_mut(&id).ok_or_else(|| missing("execution"))?;
        let to = next_state(record.state, event)
            .map_err(|illegal| Error::new(Kind::Bug, format!("execution {id} changed under its writer: {illegal}")))?;
        let of = &record.of;
        self.effects.note(&Transition { of, from: Some(record.state), event, at, reason, attempt });
        record.state = to;
        Ok(record)
    }

    /// Ends an execution that no completion ends; the attempt that runs ends with it, as cancelled. Whoever waited for
    /// it is the caller's business.
    pub(super) fn end(
        &mut self,
        id: ExecutionId,
        event: Event,
        (reason, note): (Reason, Option<&str>),
        now: Timestamp,
    ) -> Result<()> {
        let found = self.at(id)?;
        let runs = found.runs();
        let attempt = found.started_at.filter(|_| runs).map(|started_at| EndedAttempt {
            number: found.attempt,
            started_at,
            error: None,
            fingerprint: None,
        });
        let record = self.change(id, event, (now, Some(reason)), attempt)?;
        (record.reason, record.finished_at) = (Some(reason), Some(now));
        if runs {
            record.outcome = Some(AttemptOutcome::Cancelled);
        }
        if let Some(note) = note {
            record.note = Some(note.to_owned());
        }
        record.touch(Shape::Whole);
        Ok(())
    }

    /// Asks a running attempt to stop until `until`, and answers when its lease ends now. Asking again only makes it
    /// earlier, and the first one to ask is remembered.
    pub(super) fn ask_to_stop(
        &mut self,
        id: ExecutionId,
        (reason, note): (Reason, Option<&str>),
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Timestamp> {
        let record = self.at(id)?;
        record.wake_at = record.wake_at.min(until);
        if record.cancel_requested_at.is_none() {
            (record.cancel_requested_at, record.cancel_reason) = (Some(now), Some(reason));
        }
        if record.note.is_none() {
            record.note = note.map(str::to_owned);
        }
        record.touch(Shape::Whole);
        Ok(record.wake_at)
    }
}

/// The state after an event. What an attempt that was not claimed comes to, comes to it at once.
fn next_state(from: State, event: Event) -> std::result::Result<State, lifecycle::Illegal> {
    const UNGUARDED: [&str; 5] =
        ["claim_unguarded", "starts-after-cancel", "success-over-cancelled", "rescuer-overwrites", "fence_unchecked"];
    if UNGUARDED.into_iter().any(|bug| planted(Bug(bug))) {
        return Ok(lifecycle::target(event));
    }
    match lifecycle::apply(from, Event::Claim) {
        Ok(claimed) if event == Event::Succeed => lifecycle::apply(claimed, event),
        _ => lifecycle::apply(from, event),
    }
}
