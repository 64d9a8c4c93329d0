//! The limits of pools as a claim compares them, and the counts that they are compared with. `records` writes them.

use super::effects::Effects;
use super::failure::Done;
use super::rows::{Columns, Texts};
use campanile_model::capacity::Count;
use campanile_model::execution::Reason;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::{self, Event};
use campanile_model::store::RecordKind;
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

/// Reads the counts that are not zero.
pub(super) fn counts(connection: &Connection, tenant: Option<TenantId>) -> Done<Vec<Count>> {
    let mut list = connection.prepare_cached(include_str!("sql/counts/list.sql"))?;
    let mut found = list.query([tenant.map(|tenant| tenant.0)])?;
    let mut texts = Texts::default();
    let mut counts = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        counts.push(Count {
            tenant: columns.tenant()?,
            pool: texts.share(columns.text()?),
            state: columns.state()?,
            executions: columns.number()?,
        });
    }
    Ok(counts)
}

/// The limits of the pools of one batch. Each pool is looked up once: batches are of few pools, and most have no limits.
#[derive(Default)]
pub(super) struct Pools(Vec<Pool>);

struct Pool {
    tenant: TenantId,
    name: Arc<str>,
    paused: bool,
    /// How many may run, and how many did before this batch.
    slots: Option<(i64, i64)>,
}

impl Pools {
    /// Whether the pool has limits at all.
    pub(super) fn is_limited(&mut self, connection: &Connection, tenant: TenantId, name: &Arc<str>) -> Done<bool> {
        let pool = self.get(connection, tenant, name)?;
        Ok(pool.paused || pool.slots.is_some())
    }

    /// Why nothing more of the pool may start now.
    pub(super) fn refuses(&mut self, effects: &Effects<'_>, tenant: TenantId, name: &Arc<str>) -> Done<Option<Reason>> {
        let running = lifecycle::target(Event::Claim);
        let pool = self.get(effects.connection(), tenant, name)?;
        Ok(match pool.slots {
            _ if pool.paused => Some(Reason::Paused),
            Some((slots, ran)) if ran + effects.changed(tenant, name, running) >= slots => Some(Reason::QuotaDeferred),
            _ => None,
        })
    }

    fn get(&mut self, connection: &Connection, tenant: TenantId, name: &Arc<str>) -> Done<&Pool> {
        let same = |pool: &Pool| pool.tenant == tenant && (Arc::ptr_eq(&pool.name, name) || pool.name == *name);
        let at = match self.0.iter().position(same) {
            Some(at) => at,
            None => {
                self.0.push(read(connection, tenant, name)?);
                self.0.len() - 1
            }
        };
        Ok(&self.0[at])
    }
}

fn read(connection: &Connection, tenant: TenantId, name: &Arc<str>) -> Done<Pool> {
    let mut get = connection.prepare_cached(include_str!("sql/capacities/get.sql"))?;
    let limits =
        get.query_row(params![tenant.0, RecordKind::Pool.code(), &**name], |row| Ok((row.get(0)?, row.get(1)?)));
    let (slots, paused): (Option<i64>, bool) = limits.optional()?.unwrap_or((None, false));
    let slots = match slots {
        None => None,
        Some(slots) => {
            let running = lifecycle::target(Event::Claim).code();
            let mut get = connection.prepare_cached(include_str!("sql/counts/get.sql"))?;
            let ran = get.query_row(params![tenant.0, &**name, running], |row| row.get(0)).optional()?;
            Some((slots, ran.unwrap_or(0)))
        }
    };
    Ok(Pool { tenant, name: name.clone(), paused, slots })
}
