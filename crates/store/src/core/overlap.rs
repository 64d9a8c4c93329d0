//! Runs of a job that must not overlap: whose turn it is, and who waits for theirs.
//!
//! `overlap::decide` decides; this is what it decides by, and what is done about it. A run has the turn from its claim
//! until it reaches a final state, retries included; the end of it gives the turn to the first that waits, which is
//! then pending again, and keeps the turn while it waits for a runner. So nobody who comes later can start before it,
//! and a crash at any point leaves somebody with the turn, or nobody and no one waiting: both are one transaction with
//! the state.
//!
//! Jobs that allow overlaps have no runs here, and never get as far.

use super::record::Shape;
use super::rules::is_node;
use super::set::WorkingSet;
use super::{Result, missing};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::lifecycle::Event;
use campanile_model::limits;
use campanile_model::overlap::{self, Overlap, Verdict};
use campanile_model::time::Timestamp;
use std::collections::{BTreeMap, HashMap};

/// The runs that are not over, of the jobs that were loaded; by job, in the order of ids, and whether they have the
/// turn.
#[derive(Default)]
pub(crate) struct Runs {
    of: HashMap<JobId, BTreeMap<ExecutionId, bool>>,
    /// What is to be written: whether a run has the turn, or that it is over.
    changed: BTreeMap<(JobId, ExecutionId), Option<bool>>,
}

impl Runs {
    /// Notes that the runs of a job are loaded, even if there are none.
    pub(crate) fn insert_job(&mut self, job: JobId) {
        self.of.entry(job).or_default();
    }

    /// Adds a run that was loaded.
    pub(crate) fn insert(&mut self, job: JobId, execution: ExecutionId, started: bool) {
        self.of.entry(job).or_default().insert(execution, started);
    }

    /// Whether the runs of a job are loaded.
    pub(crate) fn has_job(&self, job: JobId) -> bool {
        self.of.contains_key(&job)
    }

    pub(crate) fn executions(&self) -> impl Iterator<Item = ExecutionId> {
        self.of.values().flat_map(|runs| runs.keys().copied())
    }

    /// The jobs of which somebody waits.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = JobId> {
        let waits = |runs: &BTreeMap<ExecutionId, bool>| runs.values().any(|started| !started);
        self.of.iter().filter(move |(_, runs)| waits(runs)).map(|(job, _)| *job)
    }

    /// What is to be written, in order: `Some` that a run has the turn or waits for it, `None` that it is over.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (JobId, ExecutionId, Option<bool>)> {
        self.changed.iter().map(|((job, execution), started)| (*job, *execution, *started))
    }

    /// Those of a job that have the turn, or wait for it.
    fn standing(&self, job: JobId, started: bool) -> Vec<ExecutionId> {
        let runs = self.of.get(&job).into_iter().flatten();
        runs.filter(|(_, has)| **has == started).map(|(execution, _)| *execution).collect()
    }

    /// A run starts, or waits for its turn.
    pub(super) fn enter(&mut self, job: JobId, execution: ExecutionId, started: bool) {
        let before = self.of.entry(job).or_default().insert(execution, started);
        if before != Some(started) {
            self.changed.insert((job, execution), Some(started));
        }
    }

    /// A run is over; says whether it had the turn.
    fn leave(&mut self, job: JobId, execution: ExecutionId) -> bool {
        let Some(started) = self.of.entry(job).or_default().remove(&execution) else { return false };
        self.changed.insert((job, execution), None);
        started
    }
}

/// What becomes of an execution that is about to start.
pub(super) enum Turn {
    /// It starts; the other one was ended for it.
    Start {
        terminated: Option<ExecutionId>,
    },
    /// It never runs.
    Skip(Reason),
    Wait {
        by: ExecutionId,
        cancel: bool,
    },
}

/// Decides about an execution, and ends, skips or asks others for it. What becomes of itself is the caller's.
pub(super) fn take_turn(
    set: &mut WorkingSet<'_>,
    (policy, job, execution): (Overlap, JobId, ExecutionId),
    now: Timestamp,
) -> Result<Turn> {
    let (started, waiting) = (set.runs.standing(job, true), set.runs.standing(job, false));
    // Its own turn comes first, should there be several.
    let running = started.iter().find(|&&id| id == execution).or(started.first()).copied();
    let wait = |cancel| Ok(running.map_or(Turn::Start { terminated: None }, |by| Turn::Wait { by, cancel }));
    match overlap::decide(policy, execution, running, &waiting) {
        Verdict::Start => Ok(Turn::Start { terminated: None }),
        Verdict::Skip(reason) => Ok(Turn::Skip(reason)),
        Verdict::Wait if waiting.len() >= limits::BUFFERED_MAX => Ok(Turn::Skip(Reason::OverlapForbidden)),
        Verdict::Wait => wait(false),
        Verdict::CancelAndWait => {
            replace_waiting(set, &waiting, now)?;
            match stop(set, &started, now, true)? {
                (Some(_), _) => wait(true),
                (None, terminated) => Ok(Turn::Start { terminated }),
            }
        }
        Verdict::TerminateAndStart => {
            replace_waiting(set, &waiting, now)?;
            let (_, terminated) = stop(set, &started, now, false)?;
            Ok(Turn::Start { terminated })
        }
    }
}

/// Skips those that wait: a later run takes their place.
fn replace_waiting(set: &mut WorkingSet<'_>, waiting: &[ExecutionId], now: Timestamp) -> Result<()> {
    for &id in waiting {
        set.end(id, Event::Discard, (Reason::OverlapReplaced, None), now)?;
        leave(set, id)?;
    }
    Ok(())
}

/// Stops those that run: external workers are asked, where `ask` says so, and the others ended. Answers with one that
/// was asked, and one that was ended.
fn stop(
    set: &mut WorkingSet<'_>,
    started: &[ExecutionId],
    now: Timestamp,
    ask: bool,
) -> Result<(Option<ExecutionId>, Option<ExecutionId>)> {
    let (mut asked, mut ended) = (None, None);
    for &id in started {
        let found = set.get(id).ok_or_else(|| missing("overlap"))?;
        if ask && found.runs() && !is_node(found.worker.as_deref()) {
            let until = now.saturating_add_ms(limits::CANCEL_GRACE_MS as i64);
            set.ask_to_stop(id, (Reason::OverlapReplaced, None), until, now)?;
            asked = Some(id);
            continue;
        }
        // One that has its turn and was never handed out did not run.
        let never_ran = found.deliveries == 0;
        let event = if never_ran { Event::Discard } else { Event::Cancel };
        set.end(id, event, (Reason::OverlapReplaced, None), now)?;
        leave(set, id)?;
        ended = Some(id);
    }
    Ok((asked, ended))
}

fn leave(set: &mut WorkingSet<'_>, id: ExecutionId) -> Result<bool> {
    let job = set.at(id)?.of.job;
    Ok(set.runs.leave(job, id))
}

/// A run is over: the first one that waits gets its turn, unless another has it. Those that must not run any more,
/// because their job was changed or deleted meanwhile, are skipped on the way.
pub(super) fn give_turn_on(
    set: &mut WorkingSet<'_>,
    (job, execution): (JobId, ExecutionId),
    now: Timestamp,
) -> Result<()> {
    if !set.runs.leave(job, execution) || !set.runs.standing(job, true).is_empty() {
        return Ok(());
    }
    for next in set.runs.standing(job, false) {
        let found = set.get(next).ok_or_else(|| missing("overlap"))?;
        if let Some(reason) = set.stale(found) {
            set.end(next, Event::Discard, (reason, None), now)?;
            set.runs.leave(job, next);
            continue;
        }
        set.runs.enter(job, next, true);
        unhold(set, next, now)?;
        break;
    }
    Ok(())
}

/// Whoever waited has its turn.
fn unhold(set: &mut WorkingSet<'_>, id: ExecutionId, now: Timestamp) -> Result<()> {
    let record = set.change(id, Event::Unhold, (now, None), None)?;
    // Not before its instant, should the clock have gone back since it was held.
    (record.reason, record.wake_at) = (None, now.max(record.of.fire_at));
    record.touch(Shape::Whole);
    let waiting = record.waiting();
    set.ready.push(waiting);
    Ok(())
}

/// Ends an execution without an attempt that says so, and gives its turn on if it had one.
pub(super) fn end(
    set: &mut WorkingSet<'_>,
    id: ExecutionId,
    event: Event,
    why: (Reason, Option<&str>),
    now: Timestamp,
) -> Result<()> {
    set.end(id, event, why, now)?;
    let of = &set.at(id)?.of;
    match of.overlap {
        Overlap::Allow => Ok(()),
        _ => {
            let run = (of.job, of.id);
            give_turn_on(set, run, now)
        }
    }
}
