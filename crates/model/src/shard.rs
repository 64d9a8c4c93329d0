//! Shards: slices of the jobs, each with one owner at a time.
//!
//! The shard of a job never changes. An owner's right to fire is its *epoch*, kept in the store beside the executions:
//! taking a shard over bumps it, and every fire is refused under an older one. Who tries to own what is the coordinator's
//! business; that only one succeeds is the store's.

use crate::ids::JobId;
use crate::limits::SHARDS;
use xxhash_rust::xxh3::xxh3_64;

/// A slice of the jobs.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub u16);

/// The number of a shard's current ownership.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u64);

/// The right to write for a shard.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ShardFence {
    pub shard: ShardId,
    pub epoch: Epoch,
}

/// The shard of a job, for life.
pub fn shard_of(job: JobId) -> ShardId {
    ShardId((xxh3_64(job.as_bytes()) % u64::from(SHARDS)) as u16)
}

pub fn all() -> impl Iterator<Item = ShardId> {
    (0..SHARDS).map(ShardId)
}

/// The epochs of these shards, in their order, where `current` are the ones in the store: zero for one that nobody has opened yet.
pub fn seen(shards: &[ShardId], current: &[ShardFence]) -> Vec<ShardFence> {
    let mut epochs = [Epoch(0); SHARDS as usize];
    for fence in current {
        epochs[usize::from(fence.shard.0)] = fence.epoch;
    }
    shards.iter().map(|&shard| ShardFence { shard, epoch: epochs[usize::from(shard.0)] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn a_shard_that_nobody_has_opened_is_in_epoch_zero() {
        let fence = |shard, epoch| ShardFence { shard: ShardId(shard), epoch: Epoch(epoch) };
        let current = [fence(2, 5), fence(9, 1)];
        assert_eq!(seen(&[9, 3, 2].map(ShardId), &current), [fence(9, 1), fence(3, 0), fence(2, 5)]);
    }

    #[test]
    fn jobs_spread_evenly_and_for_ever() {
        let mut counts = [0usize; SHARDS as usize];
        for i in 0..25_600u64 {
            counts[shard_of(JobId::new(Timestamp::from_millis(1_700_000_000_000), 0, i)).0 as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (50..=160).contains(&c)), "{counts:?}");
        // A change of the hash would move every job of every installation.
        assert_eq!(shard_of(JobId::from_bytes([7; 16])), ShardId(115));
    }
}
