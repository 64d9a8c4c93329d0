//! Passes over the jobs of shards, page by page, up to a horizon. Pure.

use campanile_model::shard::{ShardId, shard_of};
use campanile_model::store::{DueQuery, PlannedJob};
use campanile_model::{JobId, Timestamp, limits};
use std::collections::VecDeque;

/// Passes, the one that is asked for next first.
#[derive(Default)]
pub(crate) struct Passes {
    passes: VecDeque<Pass>,
    numbered: u64,
}

/// Which pass a question was about: shards may be lost and opened again before it is answered, and the answer is not for the pass
/// that began then.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct PassNumber(u64);

struct Pass {
    number: PassNumber,
    shards: Vec<ShardId>,
    after: Option<(Timestamp, JobId)>,
    before: Timestamp,
}

impl Passes {
    pub fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// Shards were opened: all of their jobs up to `before`, ahead of the other passes.
    pub fn begin(&mut self, shards: Vec<ShardId>, before: Timestamp) {
        let pass = self.pass(shards, None, before);
        self.passes.push_front(pass);
    }

    /// The horizon has moved from `from` to `before`.
    pub fn go_on(&mut self, shards: Vec<ShardId>, from: Timestamp, before: Timestamp) {
        let pass = self.pass(shards, Some((from, JobId::from_bytes([0xff; 16]))), before);
        self.passes.push_back(pass);
    }

    fn pass(&mut self, shards: Vec<ShardId>, after: Option<(Timestamp, JobId)>, before: Timestamp) -> Pass {
        self.numbered += 1;
        Pass { number: PassNumber(self.numbered), shards, after, before }
    }

    /// These shards are not ours any more.
    pub fn give_up(&mut self, shards: &[ShardId]) {
        self.passes.retain_mut(|pass| {
            pass.shards.retain(|shard| !shards.contains(shard));
            !pass.shards.is_empty()
        });
    }

    pub fn ask(&self) -> Option<(PassNumber, DueQuery)> {
        let Pass { number, shards, after, before } = self.passes.front()?;
        let before = before.saturating_add_ms(1);
        Some((*number, DueQuery { shards: shards.clone(), before, after: *after, limit: limits::LOAD_ROWS_MAX }))
    }

    /// Takes an answer in; returns the rows of it that count. An empty one ends its pass.
    pub fn answered(&mut self, number: PassNumber, mut jobs: Vec<PlannedJob>) -> Vec<PlannedJob> {
        let Some(at) = self.passes.iter().position(|pass| pass.number == number) else { return Vec::new() };
        match jobs.last().and_then(|job| Some((job.cursor.next_fire_at?, job.id))) {
            Some(last) => {
                let pass = &mut self.passes[at];
                pass.after = Some(last);
                // A lone node's pass is of all shards.
                if pass.shards.len() < usize::from(limits::SHARDS) {
                    jobs.retain(|job| pass.shards.contains(&shard_of(job.id)));
                }
                jobs
            }
            None => {
                self.passes.remove(at);
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::tests::{job, t};

    #[test]
    fn what_is_opened_goes_first_and_is_loaded_page_by_page() {
        let mut passes = Passes::default();
        passes.go_on(vec![ShardId(1)], t(5), t(10));
        passes.begin(vec![ShardId(2)], t(10));
        let (number, query) = passes.ask().unwrap();
        assert_eq!((&*query.shards, query.after, query.before), (&[ShardId(2)][..], None, t(11)));
        let row = job(1, "every 1000+0", 7);
        passes.answered(number, vec![row.clone()]);
        assert_eq!(passes.ask().unwrap().1.after, Some((t(7), row.id)));
        assert!(passes.answered(number, Vec::new()).is_empty());
        assert_eq!(passes.ask().unwrap().1.shards, [ShardId(1)]);
    }

    #[test]
    fn an_answer_counts_only_for_the_pass_that_asked() {
        let row = job(1, "every 1000+0", 7);
        let shard = shard_of(row.id);
        let mut passes = Passes::default();
        passes.begin(vec![shard], t(10));
        let (old, _) = passes.ask().unwrap();
        // Lost and opened again while the answer is on its way.
        passes.give_up(&[shard]);
        assert!(passes.is_empty());
        passes.begin(vec![shard], t(10));
        assert!(passes.answered(old, vec![row.clone()]).is_empty());
        assert!(passes.answered(old, Vec::new()).is_empty());
        let (new, query) = passes.ask().expect("the newer pass is not over");
        assert_eq!(query.after, None, "and begins at its beginning");
        assert_eq!(passes.answered(new, vec![row]).len(), 1);
    }

    #[test]
    fn of_a_pass_that_lost_some_shards_the_rest_counts() {
        let row = job(1, "every 1000+0", 7);
        let (shard, other) = (shard_of(row.id), ShardId(shard_of(row.id).0 ^ 1));
        let mut passes = Passes::default();
        passes.begin(vec![shard, other], t(10));
        let (number, _) = passes.ask().unwrap();
        passes.give_up(&[shard]);
        assert!(passes.answered(number, vec![row]).is_empty());
        assert_eq!(passes.ask().unwrap().1.shards, [other]);
    }
}
