//! Dead executions: what `core::dead` judges by is loaded, and what it decides is written; and the groups.

use super::failure::{Done, Failure};
use super::load;
use super::rows::{Columns, Texts};
use super::write::write;
use crate::core::dead::{self, Newest};
use crate::core::set::{IdMap, WorkingSet};
use crate::core::sums::Grown;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::JobState;
use campanile_model::store::{Applied, DeadGroup, Resolve, Verdicts};
use campanile_model::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

/// Takes executions out of the dead ones.
pub(super) fn resolve(
    connection: &Connection,
    tenant: TenantId,
    dead: &[Resolve],
    now: Timestamp,
) -> Done<Verdicts<Applied>> {
    let mut set = load::load(connection, dead.iter().map(Resolve::execution))?;
    let newest = load_newest(connection, &set)?;
    let verdicts = dead::resolve(&mut set, (tenant, dead, now), &newest)?;
    write(connection, set, verdicts)
}

/// The newest versions of the jobs of these executions, if they are not deleted.
fn load_newest(connection: &Connection, set: &WorkingSet<'_>) -> Done<IdMap<JobId, Newest>> {
    let mut get = connection.prepare_cached(include_str!("sql/dead/load_job.sql"))?;
    let (mut newest, mut texts) = (IdMap::default(), Texts::default());
    for job in set.records().map(|record| record.of.job) {
        let mut found = get.query(params![job.as_bytes(), JobState::Deleted.code()])?;
        let Some(row) = found.next()? else { continue };
        let mut columns = Columns::of(row);
        let version = columns.next()?;
        let firing = texts.firing(columns.text()?).ok_or_else(|| Failure::corrupt("job"))?;
        newest.insert(job, Newest { version, firing });
    }
    Ok(newest)
}

/// Writes what a batch adds to a group.
pub(super) fn grow(connection: &Connection, tenant: TenantId, fingerprint: u64, grown: &Grown) -> Done<()> {
    connection.prepare_cached(include_str!("sql/dead/grow.sql"))?.execute(params![
        tenant.0,
        fingerprint as i64,
        &*grown.target,
        grown.kind,
        grown.message,
        grown.count,
        grown.first_at.millis(),
        grown.last_at.millis(),
        grown.sample.as_bytes(),
    ])?;
    Ok(())
}

/// One of a group is dead no more, and its row says so already. The last one takes the group with it.
pub(super) fn shrink(connection: &Connection, tenant: TenantId, fingerprint: u64, left: ExecutionId) -> Done<()> {
    let key = (tenant.0, fingerprint as i64);
    let mut shrink = connection.prepare_cached(include_str!("sql/dead/shrink.sql"))?;
    let shrunk = shrink.query_row(key, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?))).optional()?;
    let Some((count, sample)) = shrunk else { return Ok(()) };
    if count > 0 && sample != *left.as_bytes() {
        return Ok(());
    }
    let mut newest = connection.prepare_cached(include_str!("sql/dead/newest.sql"))?;
    let newest = newest.query_row(key, |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Option<String>>(1)?)));
    match newest.optional()?.filter(|_| count > 0) {
        Some((sample, message)) => {
            let mut resample = connection.prepare_cached(include_str!("sql/dead/resample.sql"))?;
            resample.execute(params![key.0, key.1, sample, message.unwrap_or_default()])?;
        }
        None => {
            connection.prepare_cached(include_str!("sql/dead/drop.sql"))?.execute(key)?;
        }
    }
    Ok(())
}

/// Lists the groups, most recently grown first.
pub(super) fn groups(connection: &Connection, tenant: TenantId, limit: usize) -> Done<Vec<DeadGroup>> {
    let mut list = connection.prepare_cached(include_str!("sql/dead/list.sql"))?;
    let mut found = list.query(params![tenant.0, limit as i64])?;
    let mut groups = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        groups.push(DeadGroup {
            fingerprint: columns.number()?,
            target: columns.next()?,
            kind: columns.next()?,
            message: columns.next()?,
            count: columns.number()?,
            first_at: columns.instant()?,
            last_at: columns.instant()?,
            sample: columns.execution_id()?,
        });
    }
    Ok(groups)
}
