//! Shards: who may fire. Epochs live beside the executions and are compared in the transaction that fires.

use super::failure::Done;
use super::rows::Columns;
use crate::core::shards::ShardSet;
use campanile_model::limits::SHARDS;
use campanile_model::shard::{Epoch, ShardFence, ShardId};
use campanile_model::store::ShardOwner;
use rusqlite::{Connection, OptionalExtension};

/// Bumps the epochs that are still those that were seen.
pub(super) fn open(connection: &Connection, seen: &[ShardFence], owner: &str) -> Done<Vec<ShardFence>> {
    let mut open = connection.prepare_cached(include_str!("sql/shards/open.sql"))?;
    let mut fences = Vec::with_capacity(seen.len());
    for fence in seen {
        let epoch: Option<i64> =
            open.query_row((fence.shard.0, fence.epoch.0 as i64, owner), |row| row.get(0)).optional()?;
        fences.extend(epoch.map(|epoch| ShardFence { shard: fence.shard, epoch: Epoch(epoch as u64) }));
    }
    Ok(fences)
}

pub(super) fn load(connection: &Connection) -> Done<Vec<ShardFence>> {
    let mut list = connection.prepare_cached(include_str!("sql/shards/list.sql"))?;
    let mut rows = list.query([])?;
    let mut current = Vec::with_capacity(usize::from(SHARDS));
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        current.push(ShardFence { shard: ShardId(columns.next()?), epoch: Epoch(columns.number()?) });
    }
    Ok(current)
}

/// Reads who owns which shard.
pub(super) fn list(connection: &Connection) -> Done<Vec<ShardOwner>> {
    let mut list = connection.prepare_cached(include_str!("sql/shards/list_owners.sql"))?;
    let mut found = list.query([])?;
    let mut owners = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        let fence = ShardFence { shard: ShardId(columns.next()?), epoch: Epoch(columns.number()?) };
        owners.push(ShardOwner { fence, owner: columns.next()? });
    }
    Ok(owners)
}

/// Those of `shards` for which `fences` do not hold the current epoch. I3: only the current epoch fires.
pub(super) fn lost(connection: &Connection, shards: &ShardSet, fences: &[ShardFence]) -> Done<Vec<ShardId>> {
    Ok(shards.lost(&load(connection)?, fences))
}
