//! What waits in one pool: its priorities, and at each of them a lane for every target.

use super::lane::Lane;
use super::side::End;
use crate::shares::{LEVELS, Shares};
use crate::turns::Turns;
use crate::want::{Want, target_of};
use campanile_model::Timestamp;
use campanile_model::queue::Dispatch;

/// What waits in one pool.
#[derive(Debug, Default)]
pub(super) struct Pool {
    waiting: usize,
    /// By priority, then by target. No lane is empty.
    levels: [Turns<Lane>; LEVELS],
    shares: Shares,
}

impl Pool {
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the first of the fronts of all lines was queued.
    pub fn oldest_queued_at(&self) -> Option<Timestamp> {
        let lanes = self.levels.iter().flat_map(Turns::iter);
        lanes.filter_map(|(_, lane)| lane.oldest_queued_at()).min()
    }

    /// All that waits, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = &Dispatch> {
        self.levels.iter().flat_map(Turns::iter).flat_map(|(_, lane)| lane.items())
    }

    /// Whether anything waits that is wanted.
    pub fn has(&self, want: &Want) -> bool {
        want.is_any_of(&self.levels)
    }

    pub fn put(&mut self, item: Dispatch, end: End) {
        self.waiting += 1;
        self.levels[usize::from(item.priority.code())].seat(&target_of(&item)).put(item, end);
    }

    /// Takes up to `limit` of what is wanted, fewer only if no more waits; how many.
    pub fn take(&mut self, want: &Want, limit: usize, taken: &mut Vec<Dispatch>) -> usize {
        let mut lanes = want.in_turn(&self.levels, limit);
        let mut credits = self.shares.credits(want.account);
        let mut count = 0;
        while count < limit {
            let is_open = lanes.each_ref().map(|lanes| !lanes.is_empty());
            let Some(level) = credits.next(is_open) else { break };
            let Some(target) = lanes[level].pop_front() else { break };
            let Some(item) = take_in_turn(&mut self.levels[level], &target) else { continue };
            if self.levels[level].has(&target) {
                lanes[level].push_back(target);
            }
            taken.push(item);
            count += 1;
        }
        self.waiting -= count;
        self.shares.remember(want.account, credits);
        count
    }
}

fn take_in_turn(level: &mut Turns<Lane>, target: &str) -> Option<Dispatch> {
    let lane = level.get_mut(target)?;
    let item = lane.take();
    if lane.is_empty() {
        level.remove(target);
    } else {
        level.pass(target);
    }
    item
}
