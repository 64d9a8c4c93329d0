//! Runs of a job that must not overlap: whose turn it is, and who waits for theirs.
//!
//! `overlap::decide` decides; this is what it decides by, and what is done about it. A run has the turn from its claim
//! until it reaches a final state, retries included; the end of it gives the turn to the first that waits, which is
//! then pending again, and keeps the turn while it waits for a runner. So nobody who comes later can start before it,
//! and a crash at any point leaves somebody with the turn, or nobody and no one waiting: both are one transaction with
//! the state. A job whose runs are looked at is locked until the end of the transaction, so that two nodes do not give
//! two turns.
//!
//! Jobs that allow overlaps have no rows here, and never get as far.

use super::Locks;
use super::executions;
use super::rows::Columns;
use super::sheet::{Shape, Sheet, column, job_ids};
use crate::rules::is_node;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::lifecycle::Event;
use campanile_model::limits;
use campanile_model::overlap::{self, Overlap, Verdict};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Failure, Tx, Uuid};
use futures_util::try_join;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The runs that are not over, of the jobs that are locked; by job, in the order of ids, and whether they have the
/// turn.
#[derive(Default)]
pub(super) struct Runs {
    of: HashMap<JobId, BTreeMap<ExecutionId, bool>>,
    /// What is to be written: whether a run has the turn, or that it is over.
    changed: BTreeMap<(JobId, ExecutionId), Option<bool>>,
}

impl Runs {
    /// Locks jobs, in an order that is the same for everybody, and reads their runs.
    pub(super) async fn lock(&mut self, tx: &Tx<'_>, locks: Locks, jobs: &BTreeSet<JobId>) -> Done<()> {
        let keys: BTreeSet<i32> = jobs.iter().map(|job| key(*job)).collect();
        let keys: Vec<i32> = keys.into_iter().collect();
        tx.query(include_str!("sql/overlaps/lock.sql"), &[&locks.runs, &keys]).await?;
        self.of.extend(jobs.iter().map(|job| (*job, BTreeMap::new())));
        // A statement of its own: it sees what whoever had the lock before has written.
        let jobs = job_ids(jobs.iter().copied());
        for row in tx.query(include_str!("sql/overlaps/list.sql"), &[&jobs]).await? {
            let mut columns = Columns::of(&row);
            let (job, execution, started) = (columns.job_id()?, columns.execution_id()?, columns.next()?);
            self.of.entry(job).or_default().insert(execution, started);
        }
        Ok(())
    }

    /// Whether a job is locked.
    pub(super) fn is_locked(&self, job: JobId) -> bool {
        self.of.contains_key(&job)
    }

    /// All runs.
    pub(super) fn executions(&self) -> impl Iterator<Item = ExecutionId> {
        self.of.values().flat_map(|runs| runs.keys().copied())
    }

    /// The jobs of which somebody waits.
    pub(super) fn waited_for(&self) -> Vec<Uuid> {
        let waits = |runs: &BTreeMap<ExecutionId, bool>| runs.values().any(|started| !started);
        job_ids(self.of.iter().filter(|(_, runs)| waits(runs)).map(|(job, _)| *job))
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

    /// Writes who came and who left.
    pub(super) async fn write(&self, tx: &Tx<'_>) -> Done<()> {
        let of = |came: bool| self.changed.iter().filter(move |(_, started)| started.is_some() == came);
        let (left, came): (Vec<_>, Vec<_>) = (of(false).collect(), of(true).collect());
        let job = |(key, _): &(&(JobId, ExecutionId), &Option<bool>)| Uuid::from(key.0);
        let execution = |(key, _): &(&(JobId, ExecutionId), &Option<bool>)| Uuid::from(key.1);
        let leave = async {
            if !left.is_empty() {
                let key = (column(&left, job), column(&left, execution));
                tx.execute(include_str!("sql/overlaps/leave.sql"), &[&key.0, &key.1]).await?;
            }
            Done::Ok(())
        };
        let enter = async {
            if !came.is_empty() {
                let started = column(&came, |(_, started)| started.unwrap_or_default());
                let key = (column(&came, job), column(&came, execution));
                tx.execute(include_str!("sql/overlaps/enter.sql"), &[&key.0, &key.1, &started]).await?;
            }
            Done::Ok(())
        };
        try_join!(leave, enter)?;
        Ok(())
    }
}

/// The second half of a job's lock. Two jobs with the same one wait for each other, and that is all.
fn key(job: JobId) -> i32 {
    let words = job.as_bytes().as_chunks().0;
    words.iter().fold(0, |key, word| key ^ i32::from_be_bytes(*word))
}

/// What becomes of an execution that is about to start.
pub(super) enum Turn {
    /// It starts; the other one was ended for it.
    Start { terminated: Option<ExecutionId> },
    /// It never runs.
    Skip(Reason),
    /// It waits.
    Wait { by: ExecutionId, cancel: bool },
}

/// Decides about an execution, and ends, skips or asks others for it. What becomes of itself is the caller's.
pub(super) fn judge(
    sheet: &mut Sheet<'_>,
    (policy, job, execution): (Overlap, JobId, ExecutionId),
    now: Timestamp,
) -> Done<Turn> {
    let (started, waiting) = (sheet.runs.standing(job, true), sheet.runs.standing(job, false));
    // Its own turn comes first, should there be several.
    let running = started.iter().find(|&&id| id == execution).or(started.first()).copied();
    let wait = |cancel| Ok(running.map_or(Turn::Start { terminated: None }, |by| Turn::Wait { by, cancel }));
    match overlap::decide(policy, execution, running, &waiting) {
        Verdict::Start => Ok(Turn::Start { terminated: None }),
        Verdict::Skip(reason) => Ok(Turn::Skip(reason)),
        Verdict::Wait if waiting.len() >= limits::BUFFERED_MAX => Ok(Turn::Skip(Reason::OverlapForbidden)),
        Verdict::Wait => wait(false),
        Verdict::CancelAndWait => {
            replace_waiting(sheet, &waiting, now)?;
            match stop(sheet, &started, now, true)? {
                (Some(_), _) => wait(true),
                (None, terminated) => Ok(Turn::Start { terminated }),
            }
        }
        Verdict::TerminateAndStart => {
            replace_waiting(sheet, &waiting, now)?;
            let (_, terminated) = stop(sheet, &started, now, false)?;
            Ok(Turn::Start { terminated })
        }
    }
}

/// Skips those that wait: a later run takes their place.
fn replace_waiting(sheet: &mut Sheet<'_>, waiting: &[ExecutionId], now: Timestamp) -> Done<()> {
    for &id in waiting {
        executions::end(sheet, id, Event::Discard, (Reason::OverlapReplaced, None), now)?;
        leave(sheet, id)?;
    }
    Ok(())
}

/// Stops those that run: external workers are asked, where `ask` says so, and the others ended. Answers with one that
/// was asked, and one that was ended.
fn stop(
    sheet: &mut Sheet<'_>,
    started: &[ExecutionId],
    now: Timestamp,
    ask: bool,
) -> Done<(Option<ExecutionId>, Option<ExecutionId>)> {
    let (mut asked, mut ended) = (None, None);
    for &id in started {
        let found = sheet.get(id).ok_or_else(|| Failure::corrupt("overlap"))?;
        if ask && found.runs() && !is_node(found.worker.as_deref()) {
            let until = now.saturating_add_ms(limits::CANCEL_GRACE_MS as i64);
            executions::ask(sheet, id, (Reason::OverlapReplaced, None), until, now)?;
            asked = Some(id);
            continue;
        }
        // One that has its turn and was never handed out did not run.
        let never_ran = found.deliveries == 0;
        let event = if never_ran { Event::Discard } else { Event::Cancel };
        executions::end(sheet, id, event, (Reason::OverlapReplaced, None), now)?;
        leave(sheet, id)?;
        ended = Some(id);
    }
    Ok((asked, ended))
}

fn leave(sheet: &mut Sheet<'_>, id: ExecutionId) -> Done<bool> {
    let job = sheet.at(id)?.of.job;
    Ok(sheet.runs.leave(job, id))
}

/// A run is over: the first one that waits gets its turn, unless another has it. Those that must not run any more,
/// because their job was changed or deleted meanwhile, are skipped on the way.
pub(super) fn over(sheet: &mut Sheet<'_>, (job, execution): (JobId, ExecutionId), now: Timestamp) -> Done<()> {
    if !sheet.runs.leave(job, execution) || !sheet.runs.standing(job, true).is_empty() {
        return Ok(());
    }
    for next in sheet.runs.standing(job, false) {
        let found = sheet.get(next).ok_or_else(|| Failure::corrupt("overlap"))?;
        if let Some(reason) = sheet.stale(found) {
            executions::end(sheet, next, Event::Discard, (reason, None), now)?;
            sheet.runs.leave(job, next);
            continue;
        }
        sheet.runs.enter(job, next, true);
        release(sheet, next, now)?;
        break;
    }
    Ok(())
}

/// Whoever waited has its turn.
fn release(sheet: &mut Sheet<'_>, id: ExecutionId, now: Timestamp) -> Done<()> {
    let record = sheet.change(id, Event::Unhold, (now, None), None)?;
    // Not before its instant, should the clock have gone back since it was held.
    (record.reason, record.wake_at) = (None, now.max(record.of.fire_at));
    record.touch(Shape::Whole);
    let waiting = record.waiting();
    sheet.ready.push(waiting);
    Ok(())
}
