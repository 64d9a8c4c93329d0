//! What the owner of shards has in hand: the right to fire for them, and their jobs whose next fire is near. Shared by the steps of
//! the loop that owns (`own`, `load`, `fire`, `flush`).

use crate::planner::Planner;
use campanile_model::limits;
use campanile_model::shard::{ShardFence, ShardId, shard_of};
use campanile_model::store::PlannedJob;
use std::sync::Arc;

/// What the owner of shards has in hand.
pub(crate) struct Owned {
    /// The right to fire for those that are open.
    pub fences: Arc<[ShardFence]>,
    pub planner: Planner,
}

impl Owned {
    /// The shards that are open.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.fences.iter().map(|fence| fence.shard)
    }

    /// Takes shards in that were opened.
    pub fn add(&mut self, fences: Vec<ShardFence>) {
        self.fences = self.fences.iter().copied().chain(fences).collect();
    }

    /// Owns these shards no longer.
    pub fn give_up(&mut self, shards: &[ShardId]) {
        self.fences = self.fences.iter().copied().filter(|fence| !shards.contains(&fence.shard)).collect();
        self.planner.forget(shards);
    }

    /// Leaves out jobs of shards that are not open.
    pub fn retain_ours(&self, jobs: &mut Vec<PlannedJob>) {
        if self.fences.len() < usize::from(limits::SHARDS) {
            let mut is_open = [false; limits::SHARDS as usize];
            self.shards().for_each(|shard| is_open[usize::from(shard.0)] = true);
            jobs.retain(|job| is_open[usize::from(shard_of(job.id).0)]);
        }
    }
}
