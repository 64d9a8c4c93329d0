//! Sets of shards, and what has become of their ownership: the same in every store.

use super::Result;
use campanile_model::error::{Error, Kind};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::JobId;
use campanile_model::limits::SHARDS;
use campanile_model::shard::{Epoch, ShardFence, ShardId, shard_of};
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of shards.
pub(crate) struct ShardSet([bool; SHARDS as usize]);

impl ShardSet {
    pub(crate) fn of(shards: impl IntoIterator<Item = ShardId>) -> Self {
        let mut set = [false; SHARDS as usize];
        for shard in shards {
            if let Some(slot) = set.get_mut(shard.0 as usize) {
                *slot = true;
            }
        }
        Self(set)
    }

    /// For a query: `None` when it asks for all, which an empty list means too.
    pub(crate) fn filter(shards: &[ShardId]) -> Option<Self> {
        let set = Self::of(shards.iter().copied());
        if shards.is_empty() || set.0.iter().all(|&wanted| wanted) { None } else { Some(set) }
    }

    /// Whether the job belongs to one of them.
    pub(crate) fn has_job(&self, job: JobId) -> bool {
        self.0[shard_of(job).0 as usize]
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ShardId> + '_ {
        (0..SHARDS).filter(|&shard| self.0[shard as usize]).map(ShardId)
    }

    /// Those for which `held` is not the epoch that is `current`. I3: only the current epoch fires.
    pub(crate) fn lost(&self, current: &[ShardFence], held: &[ShardFence]) -> Vec<ShardId> {
        if planted(Bug("epoch_unchecked")) {
            return Vec::new();
        }
        let (current, held) = (by_shard(current), by_shard(held));
        let is_lost = |shard: &ShardId| {
            let held = held[shard.0 as usize];
            if planted(Bug("epoch-by-memory")) {
                // Sketch S10: compared with the newest one that was seen here, and not with the newest there is.
                let seen = &SEEN[shard.0 as usize];
                return held.is_none_or(|held| held.0 < seen.fetch_max(held.0, Ordering::Relaxed));
            }
            held.is_none() || held != current[shard.0 as usize]
        };
        self.iter().filter(is_lost).collect()
    }
}

/// Refuses a write for shards that are lost.
pub(crate) fn refuse_lost(lost: &[ShardId]) -> Result<()> {
    let Some(shard) = lost.first() else { return Ok(()) };
    let message = format!("epoch lost: shard {} and {} others have another owner", shard.0, lost.len() - 1);
    Err(Error::new(Kind::Conflict, message).with_code("epoch_lost"))
}

/// What `epoch-by-memory` has seen.
static SEEN: [AtomicU64; SHARDS as usize] = [const { AtomicU64::new(0) }; SHARDS as usize];

fn by_shard(fences: &[ShardFence]) -> [Option<Epoch>; SHARDS as usize] {
    let mut epochs = [None; SHARDS as usize];
    for fence in fences {
        if let Some(slot) = epochs.get_mut(fence.shard.0 as usize) {
            *slot = Some(fence.epoch);
        }
    }
    epochs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_lost_without_its_current_epoch() {
        let fence = |shard, epoch| ShardFence { shard: ShardId(shard), epoch: Epoch(epoch) };
        let set = ShardSet::of([7, 3, 9, 1].map(ShardId));
        let lost = set.lost(&[fence(3, 5), fence(7, 6), fence(9, 1)], &[fence(3, 5), fence(7, 5), fence(1, 1)]);
        assert_eq!(lost, [1, 7, 9].map(ShardId), "one that nobody opened, one that another has, one not held");
    }

    #[test]
    fn an_empty_list_means_all() {
        assert!(ShardSet::filter(&[]).is_none());
        assert!(ShardSet::filter(&campanile_model::shard::all().collect::<Vec<_>>()).is_none());
        let some = ShardSet::filter(&[ShardId(4), ShardId(2)]).unwrap();
        assert_eq!(some.iter().collect::<Vec<_>>(), [ShardId(2), ShardId(4)]);
    }
}
