//! What a node should own, what it holds, and what its engine was told: the bookkeeping between the three, without
//! any I/O.
//!
//! A shard is *wanted* by the assignment, *held* by its lock, and *told* when the engine has got it with an answer.
//! The engine is told what is wanted and held. What it is no longer told it gives up before it asks again, so a lock
//! is released only then. What was lost is told as lost before it is told as owned again: somebody else may have had
//! it meanwhile.

use campanile_model::coordinator::Assignment;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::ShardId;
use std::collections::BTreeSet;

/// The bookkeeping of one membership.
#[derive(Debug, Default)]
pub struct Ledger {
    live_nodes: Vec<String>,
    wanted: BTreeSet<ShardId>,
    held: BTreeSet<ShardId>,
    /// The last answer; `None` when the next call is to be answered whatever it is.
    told: Option<Assignment>,
    /// In the answer before the last and not in the last: still in use until the engine asks again.
    giving_up: BTreeSet<ShardId>,
    /// Nothing may be owned: the others may have stopped hearing of us.
    is_fenced: bool,
    /// An answer without shards comes first.
    owes_loss: bool,
}

impl Ledger {
    /// A beat was answered: these nodes live, and these shards should be ours.
    pub fn set_membership(&mut self, live_nodes: Vec<String>, wanted: BTreeSet<ShardId>) {
        (self.live_nodes, self.wanted, self.is_fenced) = (live_nodes, wanted, false);
    }

    /// No beat was answered for too long: the engine must stop before others take over. The locks may still be held.
    pub fn fence(&mut self) {
        if planted(Bug("lease-fails-open")) {
            // Sketch S11: nobody answers, so nothing has changed.
            return;
        }
        self.is_fenced = true;
        self.owes_loss |= self.told.as_ref().is_some_and(|told| !told.shards.is_empty());
    }

    /// The connection is gone, and with it every lock. Who is alive stays as it was: only we are cut off.
    pub fn lost(&mut self) {
        self.fence();
        if planted(Bug("locks-outlive-the-session")) {
            // prometheus-postgresql-adapter#91: the server has failed over, and the lock is believed to be held.
            return;
        }
        self.held.clear();
    }

    /// The engine has stopped firing for good.
    pub fn resigned(&mut self) {
        self.wanted.clear();
        self.giving_up.clear();
        self.told = None;
    }

    /// The engine asks again, so it has given up what it was no longer told. Whether that leaves something to release.
    pub fn called(&mut self) -> bool {
        self.giving_up.clear();
        !self.to_release().is_empty()
    }

    /// What to answer, if there is something new.
    pub fn answer(&mut self) -> Option<Assignment> {
        let is_lost = self.is_fenced || self.owes_loss;
        let shards = if is_lost { Vec::new() } else { self.owned().collect() };
        let answer = Assignment { shards, live_nodes: self.live_nodes.clone() };
        if self.told.as_ref() == Some(&answer) {
            return None;
        }
        self.owes_loss = false;
        let before = self.told.replace(answer.clone()).map(|told| told.shards).unwrap_or_default();
        self.giving_up = before.into_iter().filter(|shard| !answer.shards.contains(shard)).collect();
        Some(answer)
    }

    /// Wanted, and not held.
    pub fn to_take(&self) -> Vec<ShardId> {
        if planted(Bug("lock-taken-again")) {
            // Sketch S8: such a lock is taken as often as it is asked for, and has to be released as often.
            return self.wanted.iter().copied().collect();
        }
        self.wanted.difference(&self.held).copied().collect()
    }

    /// These are held from now on.
    pub fn took(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        self.held.extend(shards);
    }

    /// Held, neither wanted nor in use.
    pub fn to_release(&self) -> Vec<ShardId> {
        let told = self.told.as_ref().map_or(&[][..], |told| &told.shards);
        let free = |shard: &&ShardId| !told.contains(shard) && !self.giving_up.contains(shard);
        self.held.difference(&self.wanted).filter(free).copied().collect()
    }

    /// These are held no more.
    pub fn released(&mut self, shards: &[ShardId]) {
        shards.iter().for_each(|shard| {
            self.held.remove(shard);
        });
    }

    /// How many shards are wanted and held.
    pub fn owned_count(&self) -> usize {
        self.owned().count()
    }

    fn owned(&self) -> impl Iterator<Item = ShardId> {
        self.held.intersection(&self.wanted).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(shards: &[u16]) -> BTreeSet<ShardId> {
        shards.iter().map(|&shard| ShardId(shard)).collect()
    }

    fn list(shards: &[u16]) -> Vec<ShardId> {
        shards.iter().map(|&shard| ShardId(shard)).collect()
    }

    /// The engine asks: what it is told, as numbers.
    fn ask(ledger: &mut Ledger) -> Option<Vec<u16>> {
        ledger.called();
        ledger.answer().map(|answer| answer.shards.into_iter().map(|shard| shard.0).collect())
    }

    fn owner_of(shards: &[u16]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.set_membership(vec!["a".into()], set(shards));
        ledger.took(list(shards));
        assert_eq!(ask(&mut ledger), Some(shards.to_vec()));
        assert_eq!(ask(&mut ledger), None, "nothing changed");
        ledger
    }

    #[test]
    fn told_is_what_is_wanted_and_held() {
        let mut ledger = Ledger::default();
        ledger.set_membership(vec!["a".into()], set(&[1, 2, 3]));
        assert_eq!(ask(&mut ledger), Some(vec![]));
        assert_eq!(ledger.to_take(), list(&[1, 2, 3]));
        ledger.took(list(&[1, 3]));
        assert_eq!(ask(&mut ledger), Some(vec![1, 3]));
        assert_eq!((ledger.to_take(), ledger.owned_count()), (list(&[2]), 2));
    }

    #[test]
    fn a_lock_is_released_when_the_engine_asks_again_after_it_was_told() {
        let mut ledger = owner_of(&[1, 2, 3]);
        ledger.set_membership(vec!["a".into(), "b".into()], set(&[1]));
        assert_eq!(ledger.to_release(), [], "the engine does not know yet");
        assert_eq!(ask(&mut ledger), Some(vec![1]));
        assert_eq!(ledger.to_release(), [], "the engine is still giving up");
        assert!(ledger.called());
        assert_eq!(ledger.to_release(), list(&[2, 3]));
        ledger.released(&list(&[2, 3]));
        assert!(!ledger.called());
    }

    #[test]
    fn a_shard_that_comes_back_is_not_released() {
        let mut ledger = owner_of(&[1, 2]);
        ledger.set_membership(vec!["a".into()], set(&[1]));
        assert_eq!(ask(&mut ledger), Some(vec![1]));
        ledger.set_membership(vec!["a".into()], set(&[1, 2]));
        assert_eq!(ask(&mut ledger), Some(vec![1, 2]));
        assert_eq!(ledger.to_release(), []);
    }

    #[test]
    fn a_loss_is_told_before_the_shards_come_back() {
        let mut ledger = owner_of(&[1, 2]);
        ledger.lost();
        ledger.set_membership(vec!["a".into(), "b".into()], set(&[1, 2]));
        ledger.took(ledger.to_take());
        assert_eq!(ask(&mut ledger), Some(vec![]));
        assert_eq!(ask(&mut ledger), Some(vec![1, 2]));
    }

    #[test]
    fn who_is_cut_off_still_knows_who_lived() {
        let mut ledger = owner_of(&[1]);
        ledger.lost();
        let answer = ledger.answer().unwrap();
        assert_eq!((answer.shards, answer.live_nodes), (vec![], vec!["a".to_owned()]));
        ledger.lost();
        assert_eq!(ask(&mut ledger), None, "an outage is told once");
    }

    #[test]
    fn fenced_shards_stay_locked_and_come_back() {
        let mut ledger = owner_of(&[1]);
        ledger.fence();
        assert_eq!(ask(&mut ledger), Some(vec![]));
        ledger.called();
        assert_eq!(ledger.to_release(), []);
        ledger.set_membership(vec!["a".into()], set(&[1]));
        assert_eq!(ask(&mut ledger), Some(vec![1]));
    }

    #[test]
    fn one_that_resigned_releases_at_once() {
        let mut ledger = owner_of(&[1, 2]);
        ledger.resigned();
        assert_eq!(ledger.to_release(), list(&[1, 2]));
        assert_eq!(ask(&mut ledger), Some(vec![]));
    }
}
