//! Versions of jobs that another one has followed: what they still owe, what attempts of theirs run by, and what people read of
//! them.

use super::failure::Done;
use super::jobs::{self, bind_named};
use super::rows::{self, Columns, Texts};
use crate::core::shards::ShardSet;
use crate::definition;
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::version::Superseded;
use campanile_model::store::{CursorMove, DueQuery, JobKey, JobVersion, Page, PlannedJob};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, Row, params};

/// Keeps a version that another one follows.
pub(super) fn insert(connection: &Connection, old: &Superseded) -> Done<()> {
    let mut statement = connection.prepare_cached(include_str!("sql/versions/insert.sql"))?;
    let (s, job) = (&mut statement, &old.job);
    bind_named(s, ":job_id", job.id.as_bytes())?;
    bind_named(s, ":version", job.version)?;
    bind_named(s, ":tenant", job.tenant.0)?;
    bind_named(s, ":state", job.state.code())?;
    bind_named(s, ":effective_at", job.effective_at.millis())?;
    bind_named(s, ":ended_at", old.ended_at.millis())?;
    bind_named(s, ":paused_until", job.paused_until.map(Timestamp::millis))?;
    bind_named(s, ":next_fire_at", job.cursor.next_fire_at.map(Timestamp::millis))?;
    bind_named(s, ":fires_left", job.cursor.fires_left)?;
    bind_named(s, ":plan", &*job.plan)?;
    bind_named(s, ":firing", definition::encode_firing(&job.firing())?)?;
    bind_named(s, ":definition", definition::encode(&job.definition)?)?;
    statement.raw_execute()?;
    Ok(())
}

/// The earliest fire that a superseded version of a job still owes.
pub(super) fn owed_from(connection: &Connection, job: JobId) -> Done<Option<Timestamp>> {
    let mut get = connection.prepare_cached(include_str!("sql/versions/owed_from.sql"))?;
    let owed: Option<i64> = get.query_row([job.as_bytes()], |row| row.get(0))?;
    Ok(owed.map(Timestamp::from_millis))
}

/// The superseded versions of a job owe nothing any more.
pub(super) fn close(connection: &Connection, job: JobId) -> Done<()> {
    connection.prepare_cached(include_str!("sql/versions/close.sql"))?.execute([job.as_bytes()])?;
    Ok(())
}

/// Moves a cursor forward.
pub(super) fn advance(connection: &Connection, cursor: &CursorMove) -> Done<()> {
    let mut advance = connection.prepare_cached(include_str!("sql/versions/advance.sql"))?;
    advance.execute(params![
        cursor.job.as_bytes(),
        cursor.version,
        cursor.cursor.next_fire_at.map(Timestamp::millis),
        cursor.cursor.fires_left,
        cursor.superseded,
    ])?;
    Ok(())
}

/// Adds what the superseded versions of a job still owe.
pub(super) fn load_open(
    connection: &Connection,
    job: JobId,
    texts: &mut Texts,
    jobs: &mut Vec<PlannedJob>,
) -> Done<()> {
    let mut load = connection.prepare_cached(include_str!("sql/versions/load_open.sql"))?;
    let mut found = load.query([job.as_bytes()])?;
    while let Some(row) = found.next()? {
        jobs.push(planned(row, texts)?);
    }
    Ok(())
}

/// Reads superseded versions that still owe something, in the order of (next_fire_at, id).
pub(super) fn load_due(connection: &Connection, query: &DueQuery) -> Done<Vec<PlannedJob>> {
    let shards = ShardSet::filter(&query.shards);
    let mut load = connection.prepare_cached(include_str!("sql/versions/load_due.sql"))?;
    let (at, id) = query.after.unwrap_or((Timestamp::MIN, JobId::from_bytes([0; 16])));
    let mut found = load.query(params![at.millis(), id.as_bytes(), query.before.millis()])?;
    let (mut texts, mut jobs) = (Texts::default(), Vec::new());
    while jobs.len() < query.limit {
        let Some(row) = found.next()? else { break };
        let job = planned(row, &mut texts)?;
        if shards.as_ref().is_none_or(|shards| shards.has_job(job.id)) {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

fn planned(row: &Row<'_>, texts: &mut Texts) -> Done<PlannedJob> {
    let mut columns = Columns::of(row);
    let job = rows::planned(&mut columns, texts)?;
    Ok(PlannedJob { ended_at: Some(columns.instant()?), ..job })
}

/// Lists the versions of a job, newest first: the job itself, and those that it has followed.
pub(super) fn list(
    connection: &Connection,
    (tenant, id): (TenantId, JobId),
    before: Option<u32>,
    limit: usize,
) -> Done<Page<JobVersion>> {
    let before = before.unwrap_or(u32::MAX);
    let newest = jobs::get(connection, tenant, &[JobKey::Id(id)])?.pop().flatten();
    // What follows it between the two reads is not shown: the newest would be there twice.
    let before = newest.as_ref().map_or(before, |job| before.min(job.version.saturating_add(1)));
    let newest = newest.filter(|job| job.version < before).map(|job| JobVersion { job, ended_at: None });
    let older = newest.as_ref().map_or(before, |newest| newest.job.version);
    let mut items: Vec<JobVersion> = newest.into_iter().collect();
    let mut list = connection.prepare_cached(include_str!("sql/versions/list.sql"))?;
    let mut found = list.query(params![id.as_bytes(), tenant.0, older, limit as i64 + 1])?;
    let mut texts = Texts::default();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let job = rows::job(&mut columns, &mut texts)?;
        items.push(JobVersion { job, ended_at: Some(columns.instant()?) });
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, has_more })
}
