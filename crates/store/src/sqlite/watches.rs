//! Watches: what jobs are expected to do, as instants by which it must have happened.
//!
//! An execution is watched from its fire until it starts (`started`) and ends (`ended`); a job with `success_every` has one
//! watch that each success moves on (`succeeded`). A watch that is still there at its instant is broken: `break_due`
//! tells so, and the job counts as failing until it succeeds again. All of it happens in the transactions of the state
//! changes, and costs a look into a set where nothing is watched.

use super::failure::{Done, Failure};
use super::known;
use super::outbox;
use super::rows::{self, Columns};
use crate::event::{Facts, Happened};
use crate::rules::{after, watched, widths};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::notify::{Broken, EventKind, WatchKind};
use campanile_model::schedule::Schedule;
use campanile_model::store::Fire;
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;

/// Watches a fire, new or made again by a newer version of its job.
pub(super) fn begin(connection: &Connection, fire: &Fire) -> Done<()> {
    if watched(&fire.expect) == 0 {
        return Ok(());
    }
    let (execution, job) = (fire.dispatch.execution, fire.dispatch.job);
    // An older version may have expected something else.
    ended(connection, execution)?;
    let mut insert = connection.prepare_cached(include_str!("sql/watches/insert.sql"))?;
    for (kind, width) in widths(&fire.expect) {
        let due_at = after(fire.dispatch.fire_at, width);
        let tenant = fire.dispatch.tenant.0;
        insert.execute(params![execution.as_bytes(), kind.code(), job.as_bytes(), tenant, due_at.millis()])?;
    }
    Ok(())
}

/// The first attempt of a watched execution starts.
pub(super) fn started(connection: &Connection, execution: ExecutionId) -> Done<()> {
    let mut delete = connection.prepare_cached(include_str!("sql/watches/delete.sql"))?;
    delete.execute(params![execution.as_bytes(), WatchKind::Start.code()])?;
    Ok(())
}

/// A watched execution reaches a final state.
pub(super) fn ended(connection: &Connection, execution: ExecutionId) -> Done<()> {
    connection.prepare_cached(include_str!("sql/watches/delete_all.sql"))?.execute([execution.as_bytes()])?;
    Ok(())
}

/// A job succeeds: its next success is expected a period from now, and if it was failing, it has recovered. For every success,
/// watched or not: a look into two sets that are mostly empty.
pub(super) fn succeeded(connection: &Connection, job: JobId, execution: ExecutionId, now: Timestamp) -> Done<()> {
    let (expected, failing) =
        known::ask(connection, |known| (known.expected.contains(&job), known.failing.contains(&job)))?;
    if expected {
        let mut move_on = connection.prepare_cached(include_str!("sql/watches/move_success.sql"))?;
        move_on.execute(params![job.as_bytes(), now.millis()])?;
    }
    if failing && let Some((tenant, since)) = forget_failing(connection, job)? {
        let facts = Facts::Recovered { since };
        let execution = Some(execution);
        outbox::emit(connection, &Happened { tenant, kind: EventKind::Recovered, job, execution, at: now, facts })?;
    }
    Ok(())
}

/// An execution of a job is dead, or an expectation was not met.
pub(super) fn failed(connection: &Connection, tenant: TenantId, job: JobId, since: Timestamp) -> Done<()> {
    if known::ask(connection, |known| known.failing.contains(&job))? {
        return Ok(());
    }
    let mut insert = connection.prepare_cached(include_str!("sql/watches/insert_failing.sql"))?;
    insert.execute(params![job.as_bytes(), tenant.0, since.millis()])?;
    known::change(connection, |known| known.failing.insert(job))?;
    Ok(())
}

/// A job is written: its success is watched as long as it is active, from its start on. Another period begins anew.
pub(super) fn job_written(connection: &Connection, job: &Job) -> Done<()> {
    let every_ms = job.expect.success_every_ms.filter(|_| job.state == JobState::Active);
    if let Some(every_ms) = every_ms {
        let mut put = connection.prepare_cached(include_str!("sql/watches/put_success.sql"))?;
        let from = job.window.starts_at.map_or(job.updated_at, |start| start.max(job.updated_at));
        let due_at = after(from, every_ms);
        put.execute(params![job.id.as_bytes(), job.tenant.0, every_ms as i64, due_at.millis()])?;
        known::change(connection, |known| known.expected.insert(job.id))?;
    } else if known::ask(connection, |known| known.expected.contains(&job.id))? {
        forget_success(connection, job.id)?;
    }
    if job.state == JobState::Deleted && known::ask(connection, |known| known.failing.contains(&job.id))? {
        forget_failing(connection, job.id)?;
    }
    Ok(())
}

/// Ends watches whose instant has come, and tells of them.
pub(super) fn break_due(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let due = due_executions(connection, now, limit)?;
    let mut broken = Vec::with_capacity(due.len());
    let mut is_open = connection.prepare_cached(include_str!("sql/watches/is_open.sql"))?;
    let mut delete = connection.prepare_cached(include_str!("sql/watches/delete.sql"))?;
    for watch in due {
        let execution = watch.execution.expect("these are of executions");
        delete.execute(params![execution.as_bytes(), watch.kind.code()])?;
        // A version that expects nothing may have made the fire again; and who started or ended has met it.
        if is_open.exists(params![execution.as_bytes(), watch.kind.code()])? {
            broken.push(watch);
        }
    }
    broken.extend(rearm_jobs(connection, now, limit - broken.len().min(limit))?);
    broken.sort_by_key(|watch| watch.due_at);
    for watch in &broken {
        let Broken { tenant, job, execution, kind, due_at } = *watch;
        let facts = Facts::Broken { expectation: kind, due_at };
        outbox::emit(connection, &Happened { tenant, kind: EventKind::Late, job, execution, at: now, facts })?;
        failed(connection, tenant, job, due_at)?;
    }
    Ok(broken)
}

fn due_executions(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let mut load = connection.prepare_cached(include_str!("sql/watches/load_due.sql"))?;
    let mut found = load.query(params![now.millis(), limit as i64])?;
    let mut due = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        due.push(Broken {
            execution: Some(columns.execution_id()?),
            kind: columns.code("watch kind", WatchKind::from_code)?,
            job: columns.job_id()?,
            tenant: columns.tenant()?,
            due_at: columns.instant()?,
        });
    }
    Ok(due)
}

/// Moves the watches of jobs that had no success in their period to the end of the period that runs now. A job whose schedule is
/// over is watched no more: there was its last success, or it is dead and that was told.
fn rearm_jobs(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let unscheduled = rows::encode_schedule(&Schedule::None);
    let mut load = connection.prepare_cached(include_str!("sql/watches/load_due_success.sql"))?;
    let mut found = load.query(params![now.millis(), limit as i64, unscheduled])?;
    let (mut due, mut over) = (Vec::new(), Vec::new());
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let (job, tenant) = (columns.job_id()?, columns.tenant()?);
        let (every_ms, due_at) = (columns.number()?, columns.instant()?);
        if !columns.next::<bool>()? {
            over.push(job);
            continue;
        }
        let periods = now.ms_since(due_at).checked_div(every_ms).ok_or_else(|| Failure::corrupt("period"))? + 1;
        let next = after(due_at, periods.saturating_mul(every_ms));
        due.push((Broken { tenant, job, execution: None, kind: WatchKind::Success, due_at }, next));
    }
    for job in over {
        forget_success(connection, job)?;
    }
    let mut rearm = connection.prepare_cached(include_str!("sql/watches/rearm_success.sql"))?;
    for (watch, next) in &due {
        rearm.execute(params![watch.job.as_bytes(), next.millis()])?;
    }
    Ok(due.into_iter().map(|(watch, _)| watch).collect())
}

/// A job's success is watched no more.
fn forget_success(connection: &Connection, job: JobId) -> Done<()> {
    connection.prepare_cached(include_str!("sql/watches/delete_success.sql"))?.execute([job.as_bytes()])?;
    known::change(connection, |known| known.expected.remove(&job))?;
    Ok(())
}

/// Jobs that must succeed in every period.
pub(super) fn list_expected(connection: &Connection) -> Done<HashSet<JobId>> {
    list_jobs(connection, include_str!("sql/watches/list_success.sql"))
}

/// Jobs that have failed since their last success.
pub(super) fn list_failing(connection: &Connection) -> Done<HashSet<JobId>> {
    list_jobs(connection, include_str!("sql/watches/list_failing.sql"))
}

fn list_jobs(connection: &Connection, sql: &str) -> Done<HashSet<JobId>> {
    let mut list = connection.prepare_cached(sql)?;
    let mut found = list.query([])?;
    let mut jobs = HashSet::new();
    while let Some(row) = found.next()? {
        jobs.insert(Columns::of(row).job_id()?);
    }
    Ok(jobs)
}

/// A job counts as failing no more; who it belonged to and since when.
fn forget_failing(connection: &Connection, job: JobId) -> Done<Option<(TenantId, Timestamp)>> {
    let mut delete = connection.prepare_cached(include_str!("sql/watches/delete_failing.sql"))?;
    let was = delete.query_row([job.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    known::change(connection, |known| known.failing.remove(&job))?;
    Ok(was.map(|(tenant, since)| (TenantId(tenant), Timestamp::from_millis(since))))
}
