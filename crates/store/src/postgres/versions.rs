//! Versions of jobs that others have followed: what they still owe, and what people read of them.

use super::due::walk;
use super::jobs::{self, stored_definition, stored_firing};
use super::rows::{self, Columns, Texts, storable};
use super::write::{column, ms};
use crate::core::shards::ShardSet;
use campanile_model::ids::{JobId, TenantId};
use campanile_model::job::version::Superseded;
use campanile_model::store::{DueQuery, JobKey, JobVersion, Page, PlannedJob};
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx, Uuid};

/// Keeps versions that others follow.
pub(super) async fn insert(tx: &Tx<'_>, superseded: &[Superseded]) -> Done<()> {
    if superseded.is_empty() {
        return Ok(());
    }
    let firing: Vec<String> = superseded.iter().map(|old| stored_firing(&old.job)).collect::<Done<_>>()?;
    let definitions: Vec<String> = superseded.iter().map(|old| stored_definition(&old.job)).collect::<Done<_>>()?;
    tx.execute(
        include_str!("sql/versions/insert.sql"),
        &[
            &column(superseded, |old| Uuid::from(old.job.id)),
            &column(superseded, |old| i64::from(old.job.version)),
            &column(superseded, |old| i64::from(old.job.tenant.0)),
            &column(superseded, |old| i16::from(old.job.state.code())),
            &column(superseded, |old| old.job.effective_at.millis()),
            &column(superseded, |old| old.ended_at.millis()),
            &column(superseded, |old| ms(old.job.paused_until)),
            &column(superseded, |old| ms(old.job.cursor.next_fire_at)),
            &column(superseded, |old| old.job.cursor.fires_left.map(i64::from)),
            &column(superseded, |old| storable(&old.job.plan)),
            &firing,
            &definitions,
        ],
    )
    .await?;
    Ok(())
}

/// The superseded versions of these jobs owe nothing any more.
pub(super) async fn close(tx: &Tx<'_>, jobs: &[JobId]) -> Done<()> {
    if !jobs.is_empty() {
        let jobs: Vec<Uuid> = column(jobs, |&job| job.into());
        tx.execute(include_str!("sql/versions/close.sql"), &[&jobs]).await?;
    }
    Ok(())
}

/// What the superseded versions of these jobs still owe.
pub(super) async fn load_open(pool: &Pool, jobs: &[JobId]) -> Done<Vec<PlannedJob>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<Uuid> = column(jobs, |&job| job.into());
    planned(&pool.query(include_str!("sql/versions/load_open.sql"), &[&jobs]).await?)
}

/// Reads superseded versions that still owe something, in the order of (next_fire_at, id).
pub(super) async fn load_due(pool: &Pool, query: &DueQuery) -> Done<Vec<PlannedJob>> {
    let (at, id) = query.after.map_or((i64::MIN, Uuid([0; 16])), |(at, id)| (at.millis(), id.into()));
    let shards: Option<Vec<i16>> =
        ShardSet::filter(&query.shards).map(|shards| shards.iter().map(|shard| shard.0 as i16).collect());
    let (before, limit) = (query.before.millis(), query.limit as i64);
    planned(&walk(pool, include_str!("sql/versions/load_due.sql"), &[&at, &id, &before, &limit, &shards]).await?)
}

fn planned(found: &[Row]) -> Done<Vec<PlannedJob>> {
    let mut texts = Texts::default();
    let read = |row| {
        let mut columns = Columns::of(row);
        let job = rows::planned(&mut columns, &mut texts)?;
        Ok(PlannedJob { ended_at: Some(columns.instant()?), ..job })
    };
    found.iter().map(read).collect()
}

/// Lists the versions of a job, newest first: the job itself, and those that it has followed.
pub(super) async fn list(
    pool: &Pool,
    (tenant, id): (TenantId, JobId),
    before: Option<u32>,
    limit: usize,
) -> Done<Page<JobVersion>> {
    let before = before.unwrap_or(u32::MAX);
    let newest = jobs::get(pool, tenant, &[JobKey::Id(id)]).await?.pop().flatten();
    // What follows it between the two reads is not shown: the newest would be there twice.
    let before = newest.as_ref().map_or(before, |job| before.min(job.version.saturating_add(1)));
    let newest = newest.filter(|job| job.version < before).map(|job| JobVersion { job, ended_at: None });
    let older = newest.as_ref().map_or(before, |newest| newest.job.version);
    let mut items: Vec<JobVersion> = newest.into_iter().collect();
    let key = (Uuid::from(id), i64::from(tenant.0), i64::from(older), limit as i64 + 1);
    let sql = include_str!("sql/versions/list.sql");
    let mut texts = Texts::default();
    for row in &pool.query(sql, &[&key.0, &key.1, &key.2, &key.3]).await? {
        let mut columns = Columns::of(row);
        let job = rows::job(&mut columns, &mut texts)?;
        items.push(JobVersion { job, ended_at: Some(columns.instant()?) });
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    Ok(Page { items, has_more })
}
