//! Rollups: what happened per minute. They are written by `effects`, with what they count.

use super::failure::Done;
use super::rows::{self, Columns, Texts};
use campanile_model::stats::{Rollup, StatsQuery};
use rusqlite::{Connection, params};

const MINUTE_MS: i64 = 60_000;

/// Reads rollups, oldest minute first. The minute that `from` lies in is the first one.
pub(super) fn list(connection: &Connection, query: &StatsQuery) -> Done<Vec<Rollup>> {
    let from = query.from.millis();
    let mut list = connection.prepare_cached(include_str!("sql/stats/list.sql"))?;
    let mut found = list.query(params![
        from.saturating_sub(from.rem_euclid(MINUTE_MS)),
        query.to.millis(),
        query.tenant.0,
        query.pool,
        query.target,
        query.limit as i64,
    ])?;
    let mut texts = Texts::default();
    let mut rollups = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        rollups.push(Rollup {
            minute: columns.instant()?,
            tenant: columns.tenant()?,
            pool: texts.share(columns.text()?),
            target: texts.share(columns.text()?),
            tally: rows::tally(row, 4)?,
        });
    }
    Ok(rollups)
}
