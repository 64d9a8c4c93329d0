//! Watches, as they are loaded and written; what becomes of them is in `core::watches`. Where nothing is watched, they cost a look
//! into a set.

use super::failure::Done;
use super::known;
use super::outbox;
use super::rows::Columns;
use crate::core::watches::{DueSuccess, UNSCHEDULED, Watches, broken_jobs, report_broken, success_expected};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::notify::{Broken, EventKind, WatchKind};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;

/// Loads what is expected of jobs that succeed, and which of those that end are failing.
pub(super) fn load(connection: &Connection, succeeding: &[JobId], ending: &[JobId]) -> Done<Watches> {
    let mut watches = Watches::default();
    let known = |jobs: &[JobId], of: fn(&known::Known) -> &HashSet<JobId>| {
        known::ask(connection, |known| jobs.iter().filter(|job| of(known).contains(job)).copied().collect::<Vec<_>>())
    };
    for job in known(succeeding, |known| &known.expected)? {
        let mut get = connection.prepare_cached(include_str!("sql/watches/get_success.sql"))?;
        let found = get.query_row([job.as_bytes()], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        if let Some((every_ms, due_at)) = found.optional()? {
            watches.insert_success(job, every_ms as u64, Timestamp::from_millis(due_at));
        }
    }
    for job in known(ending, |known| &known.failing)? {
        let mut get = connection.prepare_cached(include_str!("sql/watches/get_failing.sql"))?;
        let found = get.query_row([job.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
        if let Some((tenant, since)) = found.optional()? {
            watches.insert_failing(job, TenantId(tenant), Timestamp::from_millis(since));
        }
    }
    Ok(watches)
}

/// Writes what became of watches.
pub(super) fn write(connection: &Connection, watches: &Watches) -> Done<()> {
    for execution in &watches.started {
        let mut delete = connection.prepare_cached(include_str!("sql/watches/delete.sql"))?;
        delete.execute(params![execution.as_bytes(), WatchKind::Start.code()])?;
    }
    // What begins anew ends first.
    for execution in &watches.ended {
        connection.prepare_cached(include_str!("sql/watches/delete_all.sql"))?.execute([execution.as_bytes()])?;
    }
    for ((execution, kind), (job, tenant, until)) in &watches.begun {
        let mut insert = connection.prepare_cached(include_str!("sql/watches/insert.sql"))?;
        insert.execute(params![execution.as_bytes(), kind, job.as_bytes(), tenant.0, until.millis()])?;
    }
    move_success(connection, &watches.moved())?;
    for job in watches.recovered() {
        forget_failing(connection, job)?;
    }
    insert_failing(connection, &watches.newly_failing())
}

/// A job is written: its success is watched as long as it is active.
pub(super) fn job_written(connection: &Connection, job: &Job) -> Done<()> {
    if let Some((every_ms, due_at)) = success_expected(job) {
        let mut put = connection.prepare_cached(include_str!("sql/watches/put_success.sql"))?;
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

/// Ends watches whose instant has come, and sends that.
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
    broken.extend(break_jobs(connection, now, limit - broken.len().min(limit))?);
    let may: Vec<_> = broken.iter().map(|watch| (watch.tenant, watch.job, EventKind::Late)).collect();
    let mut outbox = outbox::load_wanting(connection, &may)?;
    let failed = report_broken(&mut broken, &mut outbox, now);
    outbox::write(connection, &outbox)?;
    insert_failing(connection, &failed)?;
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

/// Moves the watches of jobs that had no success in their period.
fn break_jobs(connection: &Connection, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let mut load = connection.prepare_cached(include_str!("sql/watches/load_due_success.sql"))?;
    let mut found = load.query(params![now.millis(), limit as i64, UNSCHEDULED])?;
    let mut due = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        due.push(DueSuccess {
            job: columns.job_id()?,
            tenant: columns.tenant()?,
            every_ms: columns.number()?,
            due_at: columns.instant()?,
            goes_on: columns.next()?,
        });
    }
    let jobs = broken_jobs(due, now)?;
    for job in jobs.over {
        forget_success(connection, job)?;
    }
    move_success(connection, &jobs.moved)?;
    Ok(jobs.broken)
}

/// Expects the next success of jobs at another instant.
fn move_success(connection: &Connection, moved: &[(JobId, Timestamp)]) -> Done<()> {
    for (job, due_at) in moved {
        let mut move_on = connection.prepare_cached(include_str!("sql/watches/move_success.sql"))?;
        move_on.execute(params![job.as_bytes(), due_at.millis()])?;
    }
    Ok(())
}

/// Jobs count as failing; those that did before stay as they were.
pub(super) fn insert_failing(connection: &Connection, failed: &[(JobId, TenantId, Timestamp)]) -> Done<()> {
    for (job, tenant, since) in failed {
        if known::ask(connection, |known| known.failing.contains(job))? {
            continue;
        }
        let mut insert = connection.prepare_cached(include_str!("sql/watches/insert_failing.sql"))?;
        insert.execute(params![job.as_bytes(), tenant.0, since.millis()])?;
        known::change(connection, |known| known.failing.insert(*job))?;
    }
    Ok(())
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

/// A job counts as failing no more.
fn forget_failing(connection: &Connection, job: JobId) -> Done<()> {
    connection.prepare_cached(include_str!("sql/watches/delete_failing.sql"))?.execute([job.as_bytes()])?;
    known::change(connection, |known| known.failing.remove(&job))?;
    Ok(())
}
