//! Shards: who may fire. Epochs live beside the executions and are compared in the transaction that fires.

use super::failure::Done;
use super::rows::Columns;
use campanile_model::ids::JobId;
use campanile_model::limits::SHARDS;
use campanile_model::shard::{Epoch, ShardFence, ShardId, shard_of};
use campanile_model::store::ShardOwner;
use rusqlite::Connection;

/// Bumps the epochs of `shards`.
pub(super) fn open(connection: &Connection, shards: &[ShardId], owner: &str) -> Done<Vec<ShardFence>> {
    let mut open = connection.prepare_cached(include_str!("sql/shards/open.sql"))?;
    let mut fences = Vec::with_capacity(shards.len());
    for &shard in shards {
        let epoch: i64 = open.query_row((shard.0, owner), |row| row.get(0))?;
        fences.push(ShardFence { shard, epoch: Epoch(epoch as u64) });
    }
    Ok(fences)
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

/// A set of shards.
pub(super) struct ShardSet([bool; SHARDS as usize]);

impl ShardSet {
    /// Those listed.
    pub(super) fn of(shards: impl IntoIterator<Item = ShardId>) -> Self {
        let mut set = [false; SHARDS as usize];
        for shard in shards {
            if let Some(slot) = set.get_mut(shard.0 as usize) {
                *slot = true;
            }
        }
        Self(set)
    }

    /// For a query: `None` when it asks for all, which an empty list means too.
    pub(super) fn filter(shards: &[ShardId]) -> Option<Self> {
        let set = Self::of(shards.iter().copied());
        if shards.is_empty() || set.0.iter().all(|&wanted| wanted) { None } else { Some(set) }
    }

    /// Whether the job belongs to one of them.
    pub(super) fn has_job(&self, job: JobId) -> bool {
        self.0[shard_of(job).0 as usize]
    }

    fn iter(&self) -> impl Iterator<Item = ShardId> + '_ {
        (0..SHARDS).filter(|&shard| self.0[shard as usize]).map(ShardId)
    }
}

/// Those of `shards` for which `fences` do not hold the current epoch. I3: only the current epoch fires.
pub(super) fn lost(connection: &Connection, shards: &ShardSet, fences: &[ShardFence]) -> Done<Vec<ShardId>> {
    let mut current = [None; SHARDS as usize];
    let mut list = connection.prepare_cached(include_str!("sql/shards/list.sql"))?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let mut columns = Columns::of(row);
        let shard: u16 = columns.next()?;
        if let Some(slot) = current.get_mut(shard as usize) {
            *slot = Some(Epoch(columns.number()?));
        }
    }
    let mut held = [None; SHARDS as usize];
    for fence in fences {
        if let Some(slot) = held.get_mut(fence.shard.0 as usize) {
            *slot = Some(fence.epoch);
        }
    }
    let is_lost = |shard: &ShardId| {
        let held = held[shard.0 as usize];
        held.is_none() || held != current[shard.0 as usize]
    };
    Ok(shards.iter().filter(is_lost).collect())
}
