//! Skips: ranges of fires that have no execution. What ran is never in one: `crate::core::skips`.

use super::rows::Columns;
use super::write::column;
use crate::core::skips::{LOOKS_MAX, cut, shown, stands};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::store::Skip;
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool, Tx, Uuid};
use std::collections::BTreeMap;

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

/// Cuts the instants of executions that ran out of the skips around them: the executions are no longer kept, and nothing else would
/// tell that they were not skipped.
pub(super) async fn cut_out(tx: &Tx<'_>, ran: &[(JobId, Timestamp)]) -> Done<()> {
    if ran.is_empty() {
        return Ok(());
    }
    let (jobs, fires) = (column(ran, |(job, _)| Uuid::from(*job)), column(ran, |(_, at)| at.millis()));
    let mut cuts = Vec::new();
    for row in &tx.query(include_str!("sql/skips/covering.sql"), &[&jobs, &fires]).await? {
        let mut columns = Columns::of(row);
        cuts.push((skip(&mut columns)?, columns.instant()?));
    }
    cut_these(tx, cuts).await
}

/// The same of all executions of a day.
pub(super) async fn cut_out_day(tx: &Tx<'_>, ids: (Uuid, Uuid), instants: (Timestamp, Timestamp)) -> Done<()> {
    let (from, to) = (instants.0.millis(), instants.1.millis());
    let mut cuts = Vec::new();
    for row in &tx.query(include_str!("sql/skips/covering_day.sql"), &[&ids.0, &ids.1, &from, &to]).await? {
        let mut columns = Columns::of(row);
        let cut = (skip(&mut columns)?, columns.instant()?);
        let kind = columns.code("kind", FireKind::from_code)?;
        if stands(kind, columns.state()?, columns.number()?) {
            cuts.push(cut);
        }
    }
    cut_these(tx, cuts).await
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

/// What makes a skip the same row: its job, end, start and reason.
type Key = (Uuid, i64, i64, u8);

/// Cuts instants out of the skips that they lie in.
async fn cut_these(tx: &Tx<'_>, cuts: Vec<(Skip, Timestamp)>) -> Done<()> {
    let mut by_skip: BTreeMap<Key, (Skip, Vec<Timestamp>)> = BTreeMap::new();
    for (skip, at) in cuts {
        let key = (skip.job.into(), skip.to.millis(), skip.from.millis(), skip.reason.code());
        by_skip.entry(key).or_insert_with(|| (skip, Vec::new())).1.push(at);
    }
    if by_skip.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = by_skip.keys().copied().collect();
    tx.execute(
        include_str!("sql/skips/delete.sql"),
        &[
            &column(&keys, |key| key.0),
            &column(&keys, |key| key.1),
            &column(&keys, |key| key.2),
            &column(&keys, |key| i16::from(key.3)),
        ],
    )
    .await?;
    let pieces: Vec<Skip> = by_skip.into_values().flat_map(|(skip, ran)| cut(&skip, ran)).collect();
    insert(tx, &pieces).await
}

/// Lists the skips of a job, newest first.
pub(super) async fn list(
    pool: &Pool,
    tenant: TenantId,
    job: JobId,
    within: Option<(Timestamp, Timestamp)>,
    limit: usize,
) -> Done<Vec<Skip>> {
    let within = within.unwrap_or((Timestamp::MIN, Timestamp::MAX));
    let sql = include_str!("sql/skips/list.sql");
    let (id, of) = (Uuid::from(job), i64::from(tenant.0));
    let found = pool.query(sql, &[&id, &of, &within.0.millis(), &within.1.millis(), &(limit as i64)]).await?;
    let skips: Vec<Skip> = found.iter().map(|row| skip(&mut Columns::of(row))).collect::<Done<_>>()?;
    let ran = ran(pool, job, &skips).await?;
    Ok(shown(skips, &ran, within, limit))
}

/// The instants in these skips of a job that were not skipped, as far as their executions are kept.
async fn ran(pool: &Pool, job: JobId, skips: &[Skip]) -> Done<Vec<Timestamp>> {
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
