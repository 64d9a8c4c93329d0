//! Skips: ranges of fires that have no execution. What ran is never in one: `crate::core::skips`.

use super::failure::Done;
use super::history;
use super::rows::Columns;
use crate::core::skips::{LOOKS_MAX, reach, shown, stands};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::store::{Skip, Skips};
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

/// An execution that ran is no longer kept. Its instant stays behind, if nothing else would tell that it was not skipped.
pub(super) fn leave_behind(
    connection: &Connection,
    (tenant, job): (TenantId, JobId),
    at: Timestamp,
    now: Timestamp,
) -> Done<()> {
    let mut insert = connection.prepare_cached(include_str!("sql/pruned_runs/insert.sql"))?;
    insert.execute(params![job.as_bytes(), at.millis(), tenant.0, now.millis()])?;
    Ok(())
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
) -> Done<Skips> {
    let within = within.unwrap_or((Timestamp::MIN, Timestamp::MAX));
    let mut list = connection.prepare_cached(include_str!("sql/skips/list.sql"))?;
    let skips =
        read(list.query(params![job.as_bytes(), tenant.0, within.0.millis(), within.1.millis(), limit as i64])?)?;
    // What is pruned meanwhile is in both, and not in neither.
    let kept = kept(connection, job, &skips)?;
    // First those of the range, and then those around it, which may be too many to read: they only say where a piece ends.
    let mut pruned = pruned_in(connection, (tenant, job), within)?;
    pruned.extend(pruned_in(connection, (tenant, job), reach(&skips, within))?);
    Ok(shown(skips, (kept, pruned), within, limit))
}

/// The instants in a range that stayed behind when their executions were pruned, newest first.
fn pruned_in(
    connection: &Connection,
    (tenant, job): (TenantId, JobId),
    (from, to): (Timestamp, Timestamp),
) -> Done<Vec<Timestamp>> {
    let mut list = connection.prepare_cached(include_str!("sql/pruned_runs/list.sql"))?;
    let mut found = list.query(params![job.as_bytes(), tenant.0, from.millis(), to.millis(), LOOKS_MAX as i64])?;
    let mut pruned = Vec::new();
    while let Some(row) = found.next()? {
        pruned.push(Columns::of(row).instant()?);
    }
    Ok(pruned)
}

/// The instants in these skips of a job that were not skipped, as far as their executions are kept.
fn kept(connection: &Connection, job: JobId, skips: &[Skip]) -> Done<Vec<Timestamp>> {
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
