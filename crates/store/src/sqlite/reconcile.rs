//! Whether the counters are what counting the rows would give, and what to do where they are not.
//!
//! A reader compares both in one snapshot. What it finds are differences, and a difference can be added at any later
//! time: what other writes count meanwhile is added too, and sums do not mind the order.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::State;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// What must be added to which count.
#[derive(Default)]
pub(super) struct Drift {
    /// Of a tenant's executions in a pool in a state.
    counts: Vec<(TenantId, String, State, i64)>,
    /// Of a tenant's dead executions with a fingerprint.
    groups: Vec<(TenantId, u64, i64)>,
}

impl Drift {
    /// How much is off in all.
    pub(super) fn sum(&self) -> u64 {
        let counts = self.counts.iter().map(|(.., by)| by.unsigned_abs());
        counts.chain(self.groups.iter().map(|(.., by)| by.unsigned_abs())).sum()
    }

    /// How many counts are off.
    pub(super) fn len(&self) -> usize {
        self.counts.len() + self.groups.len()
    }
}

/// Compares the counts with the rows. Reads all executions, which takes seconds where there are millions.
pub(super) fn find(connection: &Connection) -> Done<Drift> {
    Ok(Drift { counts: find_counts(connection)?, groups: find_groups(connection)? })
}

fn find_counts(connection: &Connection) -> Done<Vec<(TenantId, String, State, i64)>> {
    let mut pools: HashMap<TenantId, HashMap<String, [i64; State::CODES]>> = HashMap::new();
    let mut scan = connection.prepare_cached(include_str!("sql/reconcile/executions.sql"))?;
    let mut rows = scan.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let (tenant, pool, state) = (columns.tenant()?, columns.text()?, columns.state()?);
        let pools = pools.entry(tenant).or_default();
        match pools.get_mut(pool) {
            Some(states) => states[usize::from(state.code())] += 1,
            None => pools.entry(pool.to_owned()).or_default()[usize::from(state.code())] += 1,
        }
    }
    let mut counts = connection.prepare_cached(include_str!("sql/reconcile/counts.sql"))?;
    let mut rows = counts.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let (tenant, pool, state) = (columns.tenant()?, columns.next()?, columns.state()?);
        let counted: i64 = columns.next()?;
        pools.entry(tenant).or_default().entry(pool).or_default()[usize::from(state.code())] -= counted;
    }
    let mut drift = Vec::new();
    for (tenant, pools) in pools {
        for (pool, states) in pools {
            let off = State::ALL.into_iter().map(|state| (state, states[usize::from(state.code())]));
            let off = off.filter(|(_, by)| *by != 0);
            drift.extend(off.map(|(state, by)| (tenant, pool.clone(), state, by)));
        }
    }
    Ok(drift)
}

fn find_groups(connection: &Connection) -> Done<Vec<(TenantId, u64, i64)>> {
    let mut groups: HashMap<(TenantId, u64), i64> = HashMap::new();
    let mut scan = connection.prepare_cached(include_str!("sql/reconcile/dead.sql"))?;
    let mut rows = scan.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        *groups.entry((columns.tenant()?, columns.number()?)).or_default() += 1;
    }
    let mut counts = connection.prepare_cached(include_str!("sql/reconcile/groups.sql"))?;
    let mut rows = counts.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let (group, counted) = ((columns.tenant()?, columns.number()?), columns.next::<i64>()?);
        *groups.entry(group).or_default() -= counted;
    }
    let off = groups.into_iter().filter(|(_, by)| *by != 0);
    Ok(off.map(|((tenant, fingerprint), by)| (tenant, fingerprint, by)).collect())
}

pub(super) fn correct(connection: &Connection, drift: &Drift) -> Done<()> {
    let mut add = connection.prepare_cached(include_str!("sql/counts/add.sql"))?;
    for (tenant, pool, state, by) in &drift.counts {
        add.execute(params![tenant.0, pool, state.code(), by])?;
    }
    let mut add = connection.prepare_cached(include_str!("sql/reconcile/add_to_group.sql"))?;
    for &(tenant, fingerprint, by) in &drift.groups {
        let key = (tenant.0, fingerprint as i64);
        let count = add.query_row(params![key.0, key.1, by], |row| row.get::<_, i64>(0)).optional()?;
        match count {
            Some(1..) => {}
            Some(_) => drop(connection.prepare_cached(include_str!("sql/dead/drop.sql"))?.execute(key)?),
            // The group is lost: what is known of it is in its newest member.
            None => {
                let mut regroup = connection.prepare_cached(include_str!("sql/reconcile/regroup.sql"))?;
                regroup.execute(params![key.0, key.1, by])?;
            }
        }
    }
    Ok(())
}
