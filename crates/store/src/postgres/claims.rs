//! Claims: what `core::claim` judges by is locked and read, and what it decides is written. Whoever counts the slots of a
//! pool has the row of its limits locked, so that what he counts is what there is.

use super::Locks;
use super::load::{self, LockScope, RowLocks};
use super::progress;
use super::rows::Columns;
use super::write;
use crate::core::claim::{self, startable};
use crate::core::pools::Pool;
use crate::core::record::Record;
use campanile_model::lifecycle::{self, Event};
use campanile_model::store::{Claim, Claimed, RecordKind, Verdicts};
use campanile_pg::{Done, Tx};
use futures_util::try_join;
use std::collections::BTreeSet;

pub(super) async fn claim(tx: &Tx<'_>, locks: Locks, row_locks: RowLocks, claims: &[Claim]) -> Done<Verdicts<Claimed>> {
    let mut set =
        load::load(tx, LockScope::Claims(locks), row_locks, claims.iter().map(|claim| claim.execution)).await?;
    let wanted: Vec<&Record> = claims.iter().filter_map(|claim| startable(&set, claim)).collect();
    let tried = wanted.iter().filter(|record| record.deliveries > 0).map(|record| record.of.id);
    let versions = wanted.iter().map(|record| (record.of.job, record.job_version)).collect();
    let (newest, (pools, fences), first_starts, checkpoints) = try_join!(
        load::get_newest(tx, &wanted),
        load_starts(tx, &wanted),
        load::load_first_starts(tx, &wanted),
        progress::load_checkpoints(tx, tried),
    )?;
    load::add_newest(tx, &mut set, newest, versions).await?;
    (set.pools, set.fences) = (pools, fences.into_iter());
    (set.first_starts, set.checkpoints) = (first_starts, checkpoints);
    let verdicts = claim::claim(&mut set, claims)?;
    write::write(tx, set, verdicts).await
}

/// What every start needs: the limits of its pool, and a fence.
pub(super) async fn load_starts(tx: &Tx<'_>, wanted: &[&Record]) -> Done<(Vec<Pool>, Vec<u64>)> {
    if wanted.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    try_join!(limited(tx, wanted), take_fences(tx, wanted.len()))
}

/// So many fences, in their order.
async fn take_fences(tx: &Tx<'_>, count: usize) -> Done<Vec<u64>> {
    let rows = tx.query(include_str!("sql/attempts/take_fences.sql"), &[&(count as i64)]).await?;
    let mut fences: Vec<u64> = rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect();
    fences.sort_unstable();
    Ok(fences)
}

/// Locks and reads the limits of those pools that have any.
async fn limited(tx: &Tx<'_>, wanted: &[&Record]) -> Done<Vec<Pool>> {
    let names: BTreeSet<(i64, &str)> = wanted.iter().map(|r| (i64::from(r.of.tenant.0), &*r.of.pool)).collect();
    let (tenants, names): (Vec<i64>, Vec<&str>) = names.into_iter().unzip();
    let kind = i16::from(RecordKind::Pool.code());
    let mut pools = Vec::new();
    for row in &tx.query(include_str!("sql/capacities/lock.sql"), &[&tenants, &names, &kind]).await? {
        let mut columns = Columns::of(row);
        let (tenant, name) = (columns.tenant()?, columns.text()?.into());
        let slots = columns.next::<Option<i64>>()?.map(|slots| (slots, 0));
        pools.push(Pool { tenant, name, paused: columns.next()?, slots });
    }
    let counted: Vec<&mut Pool> = pools.iter_mut().filter(|pool| pool.slots.is_some()).collect();
    if !counted.is_empty() {
        count(tx, counted).await?;
    }
    Ok(pools)
}

/// Counts how many of these pools run, once their limits are locked.
async fn count(tx: &Tx<'_>, mut pools: Vec<&mut Pool>) -> Done<()> {
    let tenants: Vec<i64> = pools.iter().map(|pool| i64::from(pool.tenant.0)).collect();
    let names: Vec<String> = pools.iter().map(|pool| pool.name.to_string()).collect();
    let running = i16::from(lifecycle::target(Event::Claim).code());
    for row in &tx.query(include_str!("sql/counts/get.sql"), &[&tenants, &names, &running]).await? {
        let mut columns = Columns::of(row);
        let (tenant, name, running) = (columns.tenant()?, columns.text()?, columns.next::<i64>()?);
        let of = |pool: &&mut &mut Pool| pool.tenant == tenant && *pool.name == *name;
        if let Some((_, ran)) = pools.iter_mut().find(of).and_then(|pool| pool.slots.as_mut()) {
            *ran = running;
        }
    }
    Ok(())
}
