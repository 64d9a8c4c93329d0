//! Due jobs, in the order of their cursors.

use super::rows::{self, Columns, Texts};
use crate::shard_set::ShardSet;
use campanile_model::job::JobState;
use campanile_model::store::{DueQuery, PlannedJob};
use campanile_pg::{Done, Pool, Uuid};

/// Reads a page of active jobs, in the order of (next_fire_at, id).
pub(super) async fn load(pool: &Pool, query: &DueQuery) -> Done<Vec<PlannedJob>> {
    let (at, id) = query.after.map_or((i64::MIN, Uuid([0; 16])), |(at, id)| (at.millis(), id.into()));
    let (before, active, limit) = (query.before.millis(), i16::from(JobState::Active.code()), query.limit as i64);
    let found = match ShardSet::filter(&query.shards) {
        None => pool.query(include_str!("sql/jobs/load_due.sql"), &[&at, &id, &before, &active, &limit]).await?,
        Some(shards) => {
            let shards: Vec<i16> = shards.iter().map(|shard| shard.0 as i16).collect();
            let sql = include_str!("sql/jobs/load_due_of.sql");
            pool.query(sql, &[&at, &id, &before, &active, &limit, &shards]).await?
        }
    };
    let mut texts = Texts::default();
    found.iter().map(|row| rows::planned(&mut Columns::of(row), &mut texts)).collect()
}
