//! Skips: ranges of fires that have no execution. What ran is never in one: `crate::core::skips`.

use super::rows::Columns;
use super::write::column;
use crate::core::skips::{LOOKS_MAX, reach, shown, stands, stays_behind};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::store::{Skip, Skips};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};

/// Records skips. The same skip again is the same row.
pub(super) async fn insert(tx: &Tx<'_>, skips: &[Skip]) -> Done<()> {
    if skips.is_empty() {
        return Ok(());
    }
    tx.execute(
        include_str!("sql/skips/insert.sql"),
        &[
            &column(skips, |skip| Uuid::from(skip.job)),
            &column(skips, |skip| skip.to.millis()),
            &column(skips, |skip| skip.from.millis()),
            &column(skips, |skip| i16::from(skip.reason.code())),
            &column(skips, |skip| i64::from(skip.tenant.0)),
            &column(skips, |skip| skip.recorded_at.millis()),
        ],
    )
    .await?;
    Ok(())
}

/// Executions that ran: whose, and at which instant.
pub(super) type Ran = Vec<(TenantId, JobId, Timestamp)>;

/// Executions that ran are no longer kept. Their instants stay behind, where nothing else would tell that they were not skipped.
pub(super) async fn leave_behind(tx: &Tx<'_>, ran: &Ran, now: Timestamp) -> Done<()> {
    if ran.is_empty() {
        return Ok(());
    }
    let jobs = column(ran, |(_, job, _)| Uuid::from(*job));
    let (fires, tenants) = (column(ran, |(.., at)| at.millis()), column(ran, |(tenant, ..)| i64::from(tenant.0)));
    tx.execute(include_str!("sql/pruned_runs/insert.sql"), &[&jobs, &fires, &tenants, &now.millis()]).await?;
    Ok(())
}

/// The same of all executions of a day, from an id and an instant to another.
pub(super) async fn leave_day_behind(
    tx: &Tx<'_>,
    ids: (Uuid, Uuid),
    instants: (Timestamp, Timestamp),
    now: Timestamp,
) -> Done<()> {
    let (from, to) = (instants.0.millis(), instants.1.millis());
    let mut ran = Ran::new();
    for row in &tx.query(include_str!("sql/pruned_runs/load_day.sql"), &[&ids.0, &ids.1, &from, &to]).await? {
        let mut columns = Columns::of(row);
        let (job, at, tenant) = (columns.job_id()?, columns.instant()?, columns.tenant()?);
        let kind = columns.code("kind", FireKind::from_code)?;
        if stays_behind(kind, columns.state()?, columns.number()?) {
            ran.push((tenant, job, at));
        }
    }
    leave_behind(tx, &ran, now).await
}

fn skip(columns: &mut Columns<'_>) -> Done<Skip> {
    Ok(Skip {
        job: columns.job_id()?,
        to: columns.instant()?,
        from: columns.instant()?,
        reason: columns.code("reason", Reason::from_code)?,
        tenant: columns.tenant()?,
        recorded_at: columns.instant()?,
    })
}

/// Lists the skips of a job, newest first.
pub(super) async fn list(
    pool: &Pool,
    tenant: TenantId,
    job: JobId,
    within: Option<(Timestamp, Timestamp)>,
    limit: usize,
) -> Done<Skips> {
    let within = within.unwrap_or((Timestamp::MIN, Timestamp::MAX));
    let sql = include_str!("sql/skips/list.sql");
    let (id, of) = (Uuid::from(job), i64::from(tenant.0));
    let found = pool.query(sql, &[&id, &of, &within.0.millis(), &within.1.millis(), &(limit as i64)]).await?;
    let skips: Vec<Skip> = found.iter().map(|row| skip(&mut Columns::of(row))).collect::<Done<_>>()?;
    // What is pruned meanwhile is in both, and not in neither.
    let kept = kept(pool, job, &skips).await?;
    // First those of the range, and then those around it, which may be too many to read: they only say where a piece ends.
    let mut pruned = pruned_in(pool, (tenant, job), within).await?;
    pruned.extend(pruned_in(pool, (tenant, job), reach(&skips, within)).await?);
    Ok(shown(skips, (kept, pruned), within, limit))
}

/// The instants in a range that stayed behind when their executions were pruned, newest first.
async fn pruned_in(
    pool: &Pool,
    (tenant, job): (TenantId, JobId),
    (from, to): (Timestamp, Timestamp),
) -> Done<Vec<Timestamp>> {
    let (id, of) = (Uuid::from(job), i64::from(tenant.0));
    let sql = include_str!("sql/pruned_runs/list.sql");
    let found = pool.query(sql, &[&id, &of, &from.millis(), &to.millis(), &(LOOKS_MAX as i64)]).await?;
    found.iter().map(|row| Columns::of(row).instant()).collect()
}

/// The instants in these skips of a job that were not skipped, as far as their executions are kept.
async fn kept(pool: &Pool, job: JobId, skips: &[Skip]) -> Done<Vec<Timestamp>> {
    if skips.is_empty() {
        return Ok(Vec::new());
    }
    let from: Vec<Uuid> = column(skips, |skip| ExecutionId::floor(skip.from).into());
    let end: Vec<Uuid> = column(skips, |skip| ExecutionId::floor(skip.to.saturating_add_ms(1)).into());
    let sql = include_str!("sql/skips/load_executions.sql");
    let mut ran = Vec::new();
    for row in &pool.query(sql, &[&Uuid::from(job), &from, &end, &(LOOKS_MAX as i64)]).await? {
        let mut columns = Columns::of(row);
        let at = columns.instant()?;
        let kind = columns.code("kind", FireKind::from_code)?;
        if stands(kind, columns.state()?, columns.number()?) {
            ran.push(at);
        }
    }
    Ok(ran)
}
