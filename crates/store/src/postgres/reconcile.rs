//! Whether the counters are what counting the rows would give, and what to do where they are not.
//!
//! Both are compared in one snapshot, which blocks nobody and which nobody's writes disturb. What it finds are
//! differences, and a difference can be added at any later time: what other writes count meanwhile is added too, and
//! sums do not mind the order.

use super::fold;
use super::listing::SNAPSHOT;
use super::rows::Columns;
use campanile_model::error::Result;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::State;
use campanile_pg::{Done, Pool, Tx};
use std::collections::HashSet;
use std::sync::Arc;

/// What must be added to which count.
#[derive(Default)]
struct Drift {
    /// Of a tenant's executions in a pool in a state.
    counts: Vec<(TenantId, Arc<str>, State, i64)>,
    /// Of a tenant's dead executions with a fingerprint.
    groups: Vec<(i64, i64, i64)>,
}

impl Drift {
    /// How much is off in all.
    fn sum(&self) -> u64 {
        let counts = self.counts.iter().map(|(.., by)| by.unsigned_abs());
        counts.chain(self.groups.iter().map(|(.., by)| by.unsigned_abs())).sum()
    }
}

/// Compares, corrects, and answers by how much in all.
pub(super) async fn reconcile(pool: &Pool) -> Result<u64> {
    let drift = pool.write(&(), |tx, ()| Box::pin(find(tx))).await?;
    let by = drift.sum();
    if by > 0 {
        pool.write(&drift, |tx, drift| Box::pin(correct(tx, drift))).await?;
    }
    Ok(by)
}

/// Compares the counts with the rows. Reads all executions, which takes seconds where there are millions.
async fn find(tx: &Tx<'_>) -> Done<Drift> {
    tx.batch(SNAPSHOT).await?;
    tx.batch("SET LOCAL statement_timeout = '10min'").await?;
    let mut drift = Drift::default();
    for row in tx.query(include_str!("sql/reconcile/counts.sql"), &[]).await? {
        let mut columns = Columns::of(&row);
        drift.counts.push((columns.tenant()?, columns.text()?.into(), columns.state()?, columns.next()?));
    }
    for row in tx.query(include_str!("sql/reconcile/groups.sql"), &[]).await? {
        drift.groups.push((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
    }
    Ok(drift)
}

async fn correct(tx: &Tx<'_>, drift: &Drift) -> Done<()> {
    fold::append_counts(tx, &drift.counts).await?;
    if drift.groups.is_empty() {
        return Ok(());
    }
    let (tenants, fingerprints, by) = columns(drift.groups.iter());
    let sql = include_str!("sql/reconcile/add_to_groups.sql");
    let there = tx.query(sql, &[&tenants, &fingerprints, &by]).await?;
    let there: HashSet<(i64, i64)> = there.iter().map(|row| (row.get(0), row.get(1))).collect();
    let (tenants, fingerprints, by) = columns(drift.groups.iter().filter(|group| !there.contains(&(group.0, group.1))));
    if !tenants.is_empty() {
        tx.execute(include_str!("sql/reconcile/regroup.sql"), &[&tenants, &fingerprints, &by]).await?;
    }
    Ok(())
}

fn columns<'a>(groups: impl Iterator<Item = &'a (i64, i64, i64)>) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for &(tenant, fingerprint, by) in groups {
        columns.0.push(tenant);
        columns.1.push(fingerprint);
        columns.2.push(by);
    }
    columns
}
