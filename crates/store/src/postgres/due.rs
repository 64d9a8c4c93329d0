//! Due jobs, in the order of their cursors.

use super::rows::{self, Columns, Texts};
use super::versions;
use crate::core::rules::one_page;
use crate::core::shards::ShardSet;
use campanile_model::fault::{Bug, planted};
use campanile_model::job::JobState;
use campanile_model::store::{DueQuery, PlannedJob};
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Pool, Uuid};
use futures_util::future::try_join;

/// Reads a page of versions that fire, in the order of (next_fire_at, id): active jobs, and what superseded versions still owe.
pub(super) async fn load(pool: &Pool, query: &DueQuery) -> Done<Vec<PlannedJob>> {
    let (owed, jobs) = try_join(versions::load_due(pool, query), load_jobs(pool, query)).await?;
    Ok(one_page(jobs, owed, query.limit))
}

/// Reads a page of active jobs, in the order of (next_fire_at, id).
async fn load_jobs(pool: &Pool, query: &DueQuery) -> Done<Vec<PlannedJob>> {
    let (at, mut id) = query.after.map_or((i64::MIN, Uuid([0; 16])), |(at, id)| (at.millis(), id.into()));
    if planted(Bug("load-by-instant")) && query.after.is_some() {
        // leapmux#287: of those that are due at one instant, the ones that the page had no room for are passed over.
        id = Uuid([0xff; 16]);
    }
    let (before, active, limit) = (query.before.millis(), i16::from(JobState::Active.code()), query.limit as i64);
    let found = match ShardSet::filter(&query.shards) {
        None => walk(pool, include_str!("sql/jobs/load_due.sql"), &[&at, &id, &before, &active, &limit]).await?,
        Some(shards) => {
            let shards: Vec<i16> = shards.iter().map(|shard| shard.0 as i16).collect();
            let sql = include_str!("sql/jobs/load_due_of.sql");
            walk(pool, sql, &[&at, &id, &before, &active, &limit, &shards]).await?
        }
    };
    let mut texts = Texts::default();
    found.iter().map(|row| rows::planned(&mut Columns::of(row), &mut texts)).collect()
}

/// Reads a page of something that an index has in its order, from a large table. Where PostgreSQL has not counted a
/// table yet (or counted before it grew), it may think that few rows are left, and sort them all for every page: so it
/// is asked not to sort.
pub(super) async fn walk(pool: &Pool, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Done<Vec<Row>> {
    let mut client = pool.get().await?;
    let tx = client.build_transaction().read_only(true).start().await?;
    let statement = tx.prepare_cached(sql).await?;
    let terms = tx.batch_execute("SET LOCAL enable_sort = off");
    let ((), rows) = try_join(terms, tx.query(&statement, params)).await?;
    tx.commit().await?;
    Ok(rows)
}
