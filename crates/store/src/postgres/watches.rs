//! Watches, as they are locked, read and written; what becomes of them is in `core::watches`. Several nodes may look for
//! broken watches at once: each takes those that nobody else is at work on.

use super::load::{Ids, job_ids};
use super::outbox;
use super::rows::Columns;
use super::write::column;
use crate::core::watches::{DueSuccess, UNSCHEDULED, Watches, broken_jobs, report_broken, success_expected};
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::{Job, JobState};
use campanile_model::notify::{Broken, EventKind, WatchKind};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Tx, Uuid};
use futures_util::try_join;
use std::collections::HashSet;

/// Locks and reads what is expected of these executions, of these jobs that succeed, and which of all these jobs fail.
pub(super) async fn load(tx: &Tx<'_>, watched: Option<Ids>, succeeded: Vec<Uuid>, jobs: Vec<Uuid>) -> Done<Watches> {
    // Always in this order: whoever looks for broken watches has theirs before he tells that jobs fail.
    let executions = async {
        match watched {
            Some(ids) => tx.query(include_str!("sql/watches/lock.sql"), &[&ids.all]).await,
            None => Ok(Vec::new()),
        }
    };
    let success = async {
        match succeeded.is_empty() {
            true => Ok(Vec::new()),
            false => tx.query(include_str!("sql/watches/lock_success.sql"), &[&succeeded]).await,
        }
    };
    let failing = async {
        match jobs.is_empty() {
            true => Ok(Vec::new()),
            false => tx.query(include_str!("sql/watches/lock_failing.sql"), &[&jobs]).await,
        }
    };
    let (_, success, failing) = try_join!(executions, success, failing)?;
    let mut watches = Watches::default();
    for row in &success {
        let mut columns = Columns::of(row);
        watches.insert_success(columns.job_id()?, columns.number()?, columns.instant()?);
    }
    for row in &failing {
        let mut columns = Columns::of(row);
        watches.insert_failing(columns.job_id()?, columns.tenant()?, columns.instant()?);
    }
    Ok(watches)
}

/// Writes what became of watches.
pub(super) async fn write(tx: &Tx<'_>, watches: &Watches) -> Done<()> {
    let started: Vec<Uuid> = watches.started.iter().map(|id| Uuid::from(*id)).collect();
    let kinds = vec![i16::from(WatchKind::Start.code()); started.len()];
    let ended: Vec<Uuid> = watches.ended.iter().map(|id| Uuid::from(*id)).collect();
    let moved = watches.moved();
    let recovered = job_ids(watches.recovered());
    let failed = watches.newly_failing();
    // What begins anew ends first.
    let executions = async {
        delete_all(tx, &ended).await?;
        insert_begun(tx, watches).await
    };
    let jobs = async {
        forget_failing(tx, &recovered).await?;
        insert_failing(tx, &failed).await
    };
    try_join!(delete(tx, &started, &kinds), executions, move_success(tx, &moved), jobs)?;
    Ok(())
}

async fn insert_begun(tx: &Tx<'_>, watches: &Watches) -> Done<()> {
    let begun: Vec<_> = watches.begun.iter().collect();
    if begun.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/watches/insert.sql"),
        &[
            &column(&begun, |((execution, _), _)| Uuid::from(*execution)),
            &column(&begun, |((_, kind), _)| i16::from(*kind)),
            &column(&begun, |(_, (job, ..))| Uuid::from(*job)),
            &column(&begun, |(_, (_, tenant, _))| i64::from(tenant.0)),
            &column(&begun, |(_, (.., until))| until.millis()),
        ],
    )
    .await?;
    Ok(())
}

async fn delete(tx: &Tx<'_>, executions: &[Uuid], kinds: &[i16]) -> Done<()> {
    if !executions.is_empty() {
        tx.execute(include_str!("sql/watches/delete.sql"), &[&executions, &kinds]).await?;
    }
    Ok(())
}

async fn delete_all(tx: &Tx<'_>, executions: &[Uuid]) -> Done<()> {
    if !executions.is_empty() {
        tx.execute(include_str!("sql/watches/delete_all.sql"), &[&executions]).await?;
    }
    Ok(())
}

async fn move_success(tx: &Tx<'_>, moved: &[(JobId, Timestamp)]) -> Done<()> {
    if !moved.is_empty() {
        let jobs = column(moved, |(job, _)| Uuid::from(*job));
        let due = column(moved, |(_, due_at)| due_at.millis());
        tx.execute(include_str!("sql/watches/move_success.sql"), &[&jobs, &due]).await?;
    }
    Ok(())
}

async fn forget_success(tx: &Tx<'_>, jobs: &[Uuid]) -> Done<()> {
    if !jobs.is_empty() {
        tx.execute(include_str!("sql/watches/delete_success.sql"), &[&jobs]).await?;
    }
    Ok(())
}

async fn forget_failing(tx: &Tx<'_>, jobs: &[Uuid]) -> Done<()> {
    if !jobs.is_empty() {
        tx.execute(include_str!("sql/watches/delete_failing.sql"), &[&jobs]).await?;
    }
    Ok(())
}

/// Jobs count as failing; those that did before stay as they were.
async fn insert_failing(tx: &Tx<'_>, failed: &[(JobId, TenantId, Timestamp)]) -> Done<()> {
    if !failed.is_empty() {
        let jobs = column(failed, |(job, ..)| Uuid::from(*job));
        let tenants = column(failed, |(_, tenant, _)| i64::from(tenant.0));
        let since = column(failed, |(.., since)| since.millis());
        tx.execute(include_str!("sql/watches/insert_failing.sql"), &[&jobs, &tenants, &since]).await?;
    }
    Ok(())
}

/// Jobs are written: their successes are watched as long as they are active, from their start on. Another period begins
/// anew.
pub(super) async fn jobs_written(tx: &Tx<'_>, jobs: &[&Job]) -> Done<()> {
    let mut left = jobs.to_vec();
    while !left.is_empty() {
        // A job that was written twice is looked at twice, one after the other.
        let mut seen = HashSet::new();
        let (now, later) = left.into_iter().partition(|job| seen.insert(job.id));
        written_once(tx, now).await?;
        left = later;
    }
    Ok(())
}

async fn written_once(tx: &Tx<'_>, jobs: Vec<&Job>) -> Done<()> {
    let (mut expected, mut others) = (Vec::new(), Vec::new());
    for job in jobs {
        match success_expected(job) {
            Some((every_ms, due_at)) => expected.push((job, every_ms, due_at)),
            // What is new was not watched before.
            None if job.version > 1 => others.push(job),
            None => {}
        }
    }
    if !expected.is_empty() {
        tx.execute(
            include_str!("sql/watches/put_success.sql"),
            &[
                &column(&expected, |(job, ..)| Uuid::from(job.id)),
                &column(&expected, |(job, ..)| i64::from(job.tenant.0)),
                &column(&expected, |(_, every_ms, _)| *every_ms as i64),
                &column(&expected, |(.., due_at)| due_at.millis()),
            ],
        )
        .await?;
    }
    forget_success(tx, &job_ids(others.iter().map(|job| job.id))).await?;
    let deleted = others.iter().filter(|job| job.state == JobState::Deleted);
    forget_failing(tx, &job_ids(deleted.map(|job| job.id))).await
}

/// Ends watches whose instant has come, and sends that.
pub(super) async fn break_due(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let mut broken = break_executions(tx, now, limit).await?;
    broken.extend(break_jobs(tx, now, limit - broken.len().min(limit)).await?);
    let may: Vec<_> = broken.iter().map(|watch| (watch.tenant, watch.job, EventKind::Late)).collect();
    let mut outbox = outbox::load(tx, &may).await?;
    let failed = report_broken(&mut broken, &mut outbox, now);
    try_join!(insert_failing(tx, &failed), outbox::write(tx, &outbox))?;
    Ok(broken)
}

/// Ends the watches of executions. A version that expects nothing may have made the fire again; and who started or
/// ended has met what was expected: those are not broken.
async fn break_executions(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let rows = tx.query(include_str!("sql/watches/load_due.sql"), &[&now.millis(), &(limit as i64)]).await?;
    let mut due = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut columns = Columns::of(row);
        let id = columns.execution_id()?;
        let kind = columns.code("watch kind", WatchKind::from_code)?;
        let (job, tenant, due_at) = (columns.job_id()?, columns.tenant()?, columns.instant()?);
        due.push((id, Broken { execution: Some(id), kind, job, tenant, due_at }));
    }
    let Some(bounds) = Ids::of(due.iter().map(|(id, _)| *id)) else { return Ok(Vec::new()) };
    let ids = column(&due, |(id, _)| Uuid::from(*id));
    let kinds = column(&due, |(_, watch)| i16::from(watch.kind.code()));
    let sql = include_str!("sql/watches/is_open.sql");
    let key: [&(dyn ToSql + Sync); 4] = [&bounds.first, &bounds.last, &ids, &kinds];
    let (rows, ()) = try_join!(tx.query(sql, &key), delete(tx, &ids, &kinds))?;
    let mut open = HashSet::new();
    for row in &rows {
        let mut columns = Columns::of(row);
        open.insert((columns.execution_id()?, columns.code("watch kind", WatchKind::from_code)?));
    }
    due.retain(|(id, watch)| open.contains(&(*id, watch.kind)));
    Ok(due.into_iter().map(|(_, watch)| watch).collect())
}

/// Moves the watches of jobs that had no success in their period.
async fn break_jobs(tx: &Tx<'_>, now: Timestamp, limit: usize) -> Done<Vec<Broken>> {
    let sql = include_str!("sql/watches/load_due_success.sql");
    let mut due = Vec::new();
    for row in &tx.query(sql, &[&now.millis(), &(limit as i64), &UNSCHEDULED]).await? {
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
    let over = job_ids(jobs.over);
    try_join!(forget_success(tx, &over), move_success(tx, &jobs.moved))?;
    Ok(jobs.broken)
}
