//! Rollups: what happened per minute. They are written by `effects`, with what they count: a row per batch, which add
//! up.

use super::rows::{self, Columns, Texts};
use campanile_model::stats::{Rollup, StatsQuery, Tally};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Pool};
use std::collections::BTreeMap;
use std::sync::Arc;

const MINUTE_MS: i64 = 60_000;

/// Reads rollups, oldest minute first. The minute that `from` lies in is the first one.
pub(super) async fn list(pool: &Pool, query: &StatsQuery) -> Done<Vec<Rollup>> {
    let from = query.from.millis();
    let from = from.saturating_sub(from.rem_euclid(MINUTE_MS));
    // Nothing stored has the character 0.
    if [&query.pool, &query.target].into_iter().flatten().any(|name| name.contains('\0')) {
        return Ok(Vec::new());
    }
    let (to, tenant) = (query.to.millis(), i64::from(query.tenant.0));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let sql = include_str!("sql/stats/list.sql");
    let found = pool.query(sql, &[&from, &to, &tenant, &query.pool, &query.target, &limit]).await?;
    let mut texts = Texts::default();
    let mut sums: BTreeMap<(Timestamp, Arc<str>, Arc<str>), Tally> = BTreeMap::new();
    for row in &found {
        let mut columns = Columns::of(row);
        let key = (columns.instant()?, texts.share(columns.text()?), texts.share(columns.text()?));
        sums.entry(key).or_default().add(&rows::tally(&mut columns)?);
    }
    let rollup = |((minute, pool, target), tally)| Rollup { minute, tenant: query.tenant, pool, target, tally };
    Ok(sums.into_iter().map(rollup).collect())
}
