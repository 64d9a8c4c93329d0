//! Shards: who may fire. Epochs live beside the executions and are compared in the transaction that fires.
//!
//! A fire shares the locks of its shards' rows until it ends; a take-over updates them. So a take-over waits for fires that have
//! compared before it, and those that come after it see its epoch.

use super::rows::Columns;
use crate::shard_set::ShardSet;
use campanile_model::shard::{Epoch, ShardFence, ShardId};
use campanile_model::store::ShardOwner;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx};

/// Bumps the epochs of `shards`.
pub(super) async fn open(tx: &Tx<'_>, shards: &[ShardId], owner: &str) -> Done<Vec<ShardFence>> {
    let mut ordered: Vec<i64> = shards.iter().map(|shard| i64::from(shard.0)).collect();
    ordered.sort_unstable();
    ordered.dedup();
    let found = tx.query(include_str!("sql/shards/open.sql"), &[&ordered, &owner]).await?;
    let opened = found.iter().map(|row| fence(&mut Columns::of(row))).collect::<Done<Vec<_>>>()?;
    Ok(shards.iter().filter_map(|shard| opened.iter().find(|fence| fence.shard == *shard)).copied().collect())
}

/// Reads who owns which shard.
pub(super) async fn list(pool: &Pool) -> Done<Vec<ShardOwner>> {
    let found = pool.query(include_str!("sql/shards/list_owners.sql"), &[]).await?;
    let owner = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(ShardOwner { fence: fence(&mut columns)?, owner: columns.next()? })
    };
    found.iter().map(owner).collect()
}

/// Those of `shards` for which `fences` do not hold the current epoch, in their order. Nobody takes any of `shards` over until the
/// transaction ends. I3: only the current epoch fires.
pub(super) async fn lost(tx: &Tx<'_>, shards: &[ShardId], fences: &[ShardFence]) -> Done<Vec<ShardId>> {
    let shards = ShardSet::of(shards.iter().copied());
    let ordered: Vec<i64> = shards.iter().map(|shard| i64::from(shard.0)).collect();
    let found = tx.query(include_str!("sql/shards/lock.sql"), &[&ordered]).await?;
    let current = found.iter().map(|row| fence(&mut Columns::of(row))).collect::<Done<Vec<_>>>()?;
    Ok(shards.lost(&current, fences))
}

fn fence(columns: &mut Columns<'_>) -> Done<ShardFence> {
    Ok(ShardFence { shard: ShardId(columns.small()?), epoch: Epoch(columns.number()?) })
}
