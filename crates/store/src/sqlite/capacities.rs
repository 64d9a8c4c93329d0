//! How many executions are in which state, by pool. Every change of state writes them.

use super::failure::Done;
use super::rows::{Columns, Texts};
use campanile_model::capacity::Count;
use campanile_model::ids::TenantId;
use rusqlite::Connection;

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
