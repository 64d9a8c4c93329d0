//! The counts that pools are limited by. `records` writes the limits, `claims` locks them.

use super::rows::{Columns, Texts};
use campanile_model::capacity::Count;
use campanile_model::ids::TenantId;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool};

/// Reads the counts that are not zero.
pub(super) async fn counts(pool: &Pool, tenant: Option<TenantId>) -> Done<Vec<Count>> {
    let tenant = tenant.map(|tenant| i64::from(tenant.0));
    let found = pool.query(include_str!("sql/counts/list.sql"), &[&tenant]).await?;
    let mut texts = Texts::default();
    let count = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(Count {
            tenant: columns.tenant()?,
            pool: texts.share(columns.text()?),
            state: columns.state()?,
            executions: columns.number()?,
        })
    };
    found.iter().map(count).collect()
}
