//! Runs of a job that must not overlap: whose turn it is, and who waits for theirs.
//!
//! `overlap::decide` decides; this is what it decides by, and what is done about it. A run has the turn from its claim until
//! it reaches a final state, retries included; the end of it gives the turn to the first that waits, which is then pending
//! again, and keeps the turn while it waits for a runner. So nobody who comes later can start before it, and a crash
//! at any point leaves somebody with the turn, or nobody and no one waiting: both are one transaction with the state.
//!
//! Jobs that allow overlaps have no rows here, and never get as far.

use super::claims::stale_now;
use super::effects::{Effects, Transition};
use super::executions::{self, Found};
use super::failure::{Done, Failure, expect_one};
use super::rows::{self, Columns, Texts};
use crate::rules::is_node;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId};
use campanile_model::lifecycle::{self, Event};
use campanile_model::limits;
use campanile_model::overlap::{self, Overlap, Verdict};
use campanile_model::store::Waiting;
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

/// What becomes of an execution that is about to start.
pub(super) enum Turn {
    /// It starts; the other one was ended for it.
    Start { terminated: Option<ExecutionId> },
    /// It never runs.
    Skip(Reason),
    /// It waits.
    Wait { by: ExecutionId, cancel: bool },
}

/// The runs of a job that are not over.
struct Standing {
    started: Vec<ExecutionId>,
    waiting: Vec<ExecutionId>,
}

/// Decides about an execution, and ends, skips or asks others for it. What becomes of itself is the caller's to write.
pub(super) fn judge(
    effects: &mut Effects<'_>,
    (policy, job, execution): (Overlap, JobId, ExecutionId),
    now: Timestamp,
) -> Done<Turn> {
    let connection = effects.connection();
    let Standing { started, waiting } = standing(connection, job)?;
    // Its own turn comes first, should there be several.
    let running = started.iter().find(|&&id| id == execution).or(started.first()).copied();
    let wait = |cancel| Ok(running.map_or(Turn::Start { terminated: None }, |by| Turn::Wait { by, cancel }));
    match overlap::decide(policy, execution, running, &waiting) {
        Verdict::Start => Ok(Turn::Start { terminated: None }),
        Verdict::Skip(reason) => Ok(Turn::Skip(reason)),
        Verdict::Wait if waiting.len() >= limits::BUFFERED_MAX => Ok(Turn::Skip(Reason::OverlapForbidden)),
        Verdict::Wait => wait(false),
        Verdict::CancelAndWait => {
            replace_waiting(effects, &waiting, now)?;
            match stop(effects, &started, now, true)? {
                (Some(_), _) => wait(true),
                (None, terminated) => Ok(Turn::Start { terminated }),
            }
        }
        Verdict::TerminateAndStart => {
            replace_waiting(effects, &waiting, now)?;
            let (_, terminated) = stop(effects, &started, now, false)?;
            Ok(Turn::Start { terminated })
        }
    }
}

fn standing(connection: &Connection, job: JobId) -> Done<Standing> {
    let mut list = connection.prepare_cached(include_str!("sql/overlaps/list.sql"))?;
    let mut found = list.query([job.as_bytes()])?;
    let mut standing = Standing { started: Vec::new(), waiting: Vec::new() };
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let id = columns.execution_id()?;
        match columns.next()? {
            true => standing.started.push(id),
            false => standing.waiting.push(id),
        }
    }
    Ok(standing)
}

/// Skips those that wait: a later run takes their place.
fn replace_waiting(effects: &mut Effects<'_>, waiting: &[ExecutionId], now: Timestamp) -> Done<()> {
    for &id in waiting {
        let found = get(effects.connection(), id)?;
        executions::end(effects, &found, Event::Discard, (Reason::OverlapReplaced, None), now)?;
        leave(effects.connection(), found.of.job, id)?;
    }
    Ok(())
}

/// Stops those that run: external workers are asked, where `ask` says so, and the others ended. Answers with one that was
/// asked, and one that was ended.
fn stop(
    effects: &mut Effects<'_>,
    started: &[ExecutionId],
    now: Timestamp,
    ask: bool,
) -> Done<(Option<ExecutionId>, Option<ExecutionId>)> {
    let (mut asked, mut ended) = (None, None);
    for &id in started {
        let found = get(effects.connection(), id)?;
        if ask && found.runs() && !is_node(found.worker.as_deref()) {
            let until = now.saturating_add_ms(limits::CANCEL_GRACE_MS as i64);
            executions::ask(effects.connection(), &found, (Reason::OverlapReplaced, None), until, now)?;
            asked = Some(id);
            continue;
        }
        // One that has its turn and was never handed out did not run.
        let never_ran = found.deliveries == 0;
        let event = if never_ran { Event::Discard } else { Event::Cancel };
        executions::end(effects, &found, event, (Reason::OverlapReplaced, None), now)?;
        leave(effects.connection(), found.of.job, id)?;
        ended = Some(id);
    }
    Ok((asked, ended))
}

fn get(connection: &Connection, id: ExecutionId) -> Done<Found> {
    executions::find(connection, id, &mut Texts::default())?.ok_or_else(|| Failure::corrupt("overlap"))
}

/// A run starts, or waits for its turn.
pub(super) fn enter(connection: &Connection, job: JobId, execution: ExecutionId, started: bool) -> Done<()> {
    let mut enter = connection.prepare_cached(include_str!("sql/overlaps/enter.sql"))?;
    enter.execute(params![job.as_bytes(), execution.as_bytes(), started])?;
    Ok(())
}

/// A run is over; says whether it had the turn.
fn leave(connection: &Connection, job: JobId, execution: ExecutionId) -> Done<bool> {
    let mut leave = connection.prepare_cached(include_str!("sql/overlaps/leave.sql"))?;
    let started = leave.query_row(params![job.as_bytes(), execution.as_bytes()], |row| row.get(0)).optional()?;
    Ok(started.unwrap_or(false))
}

/// A run is over: the first one that waits gets its turn, unless another has it. Those that must not run any more, because their
/// job was changed or deleted meanwhile, are skipped on the way.
pub(super) fn over(
    effects: &mut Effects<'_>,
    (job, execution): (JobId, ExecutionId),
    now: Timestamp,
    ready: &mut Vec<Waiting>,
) -> Done<()> {
    let connection = effects.connection();
    if !leave(connection, job, execution)? {
        return Ok(());
    }
    let Standing { started, waiting } = standing(connection, job)?;
    if !started.is_empty() {
        return Ok(());
    }
    for next in waiting {
        let found = get(connection, next)?;
        if let Some(reason) = stale_now(connection, next)? {
            executions::end(effects, &found, Event::Discard, (reason, None), now)?;
            leave(connection, job, next)?;
            continue;
        }
        enter(connection, job, next, true)?;
        ready.push(release(effects, &found, now)?);
        break;
    }
    Ok(())
}

/// Whoever waited has its turn.
fn release(effects: &mut Effects<'_>, found: &Found, now: Timestamp) -> Done<Waiting> {
    let connection = effects.connection();
    let changed = connection.prepare_cached(include_str!("sql/executions/unhold.sql"))?.execute(params![
        found.of.id.as_bytes(),
        lifecycle::target(Event::Unhold).code(),
        now.millis(),
        lifecycle::sources(Event::Unhold).mask(),
    ])?;
    expect_one(changed, found.of.id)?;
    effects.note(&Transition {
        of: &found.of,
        from: Some(found.state),
        event: Event::Unhold,
        at: now,
        reason: None,
        attempt: None,
    })?;
    waiting(connection, found.of.id)
}

/// An execution that waits from now on, as it is dispatched.
pub(super) fn waiting(connection: &Connection, id: ExecutionId) -> Done<Waiting> {
    let mut get = connection.prepare_cached(include_str!("sql/executions/get_waiting.sql"))?;
    let mut found = get.query([id.as_bytes()])?;
    let row = found.next()?.ok_or_else(|| Failure::corrupt("execution"))?;
    let mut columns = Columns::of(row);
    let dispatch = rows::dispatch(&mut columns, &mut Texts::default())?;
    Ok(Waiting { dispatch, wake_at: columns.instant()? })
}
