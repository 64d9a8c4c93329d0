//! Skips: ranges of fires that have no execution. What ran is never in one: `crate::core::skips`.

use super::failure::Done;
use super::history;
use super::rows::Columns;
use crate::core::skips::{LOOKS_MAX, cut, shown, stands};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::store::Skip;
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, Rows, params};

/// Records a skip. The same skip again is the same row.
pub(super) fn insert(statement: &mut CachedStatement<'_>, skip: &Skip) -> Done<()> {
    statement.execute(params![
        skip.job.as_bytes(),
        skip.to.millis(),
        skip.from.millis(),
        skip.reason.code(),
        skip.tenant.0,
        skip.recorded_at.millis(),
    ])?;
    Ok(())
}

/// Cuts the instant of an execution that ran out of the skips around it: the execution is no longer kept, and nothing else would
/// tell that it was not skipped.
pub(super) fn cut_out(connection: &Connection, job: JobId, fire_at: Timestamp) -> Done<()> {
    for skip in covering(connection, job, fire_at)? {
        let mut delete = connection.prepare_cached(include_str!("sql/skips/delete.sql"))?;
        delete.execute(params![job.as_bytes(), skip.to.millis(), skip.from.millis(), skip.reason.code()])?;
        let mut put = connection.prepare_cached(include_str!("sql/skips/insert.sql"))?;
        for piece in cut(&skip, vec![fire_at]) {
            insert(&mut put, &piece)?;
        }
    }
    Ok(())
}

fn covering(connection: &Connection, job: JobId, at: Timestamp) -> Done<Vec<Skip>> {
    let mut find = connection.prepare_cached(include_str!("sql/skips/covering.sql"))?;
    read(find.query(params![job.as_bytes(), at.millis()])?)
}

fn read(mut found: Rows<'_>) -> Done<Vec<Skip>> {
    let mut skips = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        skips.push(Skip {
            job: columns.job_id()?,
            to: columns.instant()?,
            from: columns.instant()?,
            reason: columns.code("reason", Reason::from_code)?,
            tenant: columns.tenant()?,
            recorded_at: columns.instant()?,
        });
    }
    Ok(skips)
}

/// Lists the skips of a job, newest first.
pub(super) fn list(
    connection: &Connection,
    tenant: TenantId,
    job: JobId,
    within: Option<(Timestamp, Timestamp)>,
    limit: usize,
) -> Done<Vec<Skip>> {
    let within = within.unwrap_or((Timestamp::MIN, Timestamp::MAX));
    let mut list = connection.prepare_cached(include_str!("sql/skips/list.sql"))?;
    let skips =
        read(list.query(params![job.as_bytes(), tenant.0, within.0.millis(), within.1.millis(), limit as i64])?)?;
    let ran = ran(connection, job, &skips)?;
    Ok(shown(skips, &ran, within, limit))
}

/// The instants in these skips of a job that were not skipped, as far as their executions are kept.
fn ran(connection: &Connection, job: JobId, skips: &[Skip]) -> Done<Vec<Timestamp>> {
    let (mut ran, mut looks) = (Vec::new(), 0);
    let from = skips.iter().map(|skip| skip.from).min();
    let Some((from, to)) = from.zip(skips.iter().map(|skip| skip.to).max()) else { return Ok(ran) };
    let ids = (ExecutionId::floor(from), ExecutionId::floor(to.saturating_add_ms(1)));
    let mut get = connection.prepare_cached(include_str!("sql/skips/get_execution.sql"))?;
    history::newest_first(connection, job, (*ids.0.as_bytes(), *ids.1.as_bytes()), |id| {
        looks += 1;
        let at = id.instant();
        if skips.iter().any(|skip| skip.from <= at && at <= skip.to) {
            let mut found = get.query([id.as_bytes()])?;
            if let Some(row) = found.next()? {
                let mut columns = Columns::of(row);
                let kind = columns.code("kind", FireKind::from_code)?;
                if stands(kind, columns.state()?, columns.number()?) {
                    ran.push(at);
                }
            }
        }
        Ok(looks < LOOKS_MAX)
    })?;
    Ok(ran)
}
