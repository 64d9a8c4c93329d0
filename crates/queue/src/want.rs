//! What a receiver wants, in a form that is quick to ask.

use crate::shares::LEVELS;
use crate::turns::Turns;
use campanile_model::action::Runner;
use campanile_model::job::Priority;
use campanile_model::queue::{Dispatch, Receive};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What a receiver wants, apart from how much of it. Receivers that want the same are alike.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Want {
    /// From these pools; none means from any.
    pub pools: Names,
    /// But not from these.
    pub except: Names,
    /// For these targets; none means for any.
    pub targets: Names,
    pub least: Priority,
    /// Under which the shares of the priorities are counted: a digest of the targets and of the least priority.
    pub account: u64,
}

impl Want {
    /// What is asked for. Made outside of the lock.
    pub fn of(receive: &Receive) -> Self {
        let targets = match receive.runner {
            Runner::Node => Names::default(),
            Runner::Worker => Names::of(&receive.targets),
        };
        let mut digest = DefaultHasher::new();
        (&targets, receive.least).hash(&mut digest);
        let account = digest.finish();
        let (pools, except) = (Names::of(&receive.pools), Names::of(&receive.except));
        Self { pools, except, targets, least: receive.least, account }
    }

    pub fn anything() -> Self {
        let (pools, except, targets) = Default::default();
        Self { pools, except, targets, least: Priority::Low, account: 0 }
    }

    /// Whether it is what waits in this pool, at this priority's level, for this target.
    pub fn is(&self, pool: &str, level: u8, target: &str) -> bool {
        self.has_level(usize::from(level))
            && (self.pools.is_empty() || self.pools.contains(pool))
            && !self.except.contains(pool)
            && (self.targets.is_empty() || self.targets.contains(target))
    }

    /// Whether what waits at this priority's level is urgent enough.
    pub fn has_level(&self, level: usize) -> bool {
        level <= usize::from(self.least.code())
    }

    /// Whether any of these has something for the targets, at a priority that is urgent enough.
    pub fn is_any_of<T>(&self, levels: &[Turns<T>; LEVELS]) -> bool {
        let mut urgent = levels.iter().enumerate().filter(|(level, _)| self.has_level(*level)).map(|(_, lanes)| lanes);
        urgent.any(|lanes| if self.targets.is_empty() { !lanes.is_empty() } else { lanes.has_any(&self.targets) })
    }

    /// The first `limit` of the wanted targets at each priority, in turn; none at those that are not urgent enough.
    pub fn in_turn<T>(&self, levels: &[Turns<T>; LEVELS], limit: usize) -> [VecDeque<Arc<str>>; LEVELS] {
        std::array::from_fn(|level| match self.has_level(level) {
            true => levels[level].in_turn(&self.targets, limit, |_, _| true),
            false => VecDeque::new(),
        })
    }
}

/// By which target an item waits: a worker's handler, and none for a node.
pub(crate) fn target_of(item: &Dispatch) -> Arc<str> {
    match item.action.runner() {
        Runner::Node => Arc::default(),
        Runner::Worker => Arc::clone(&item.target),
    }
}

/// Some names, each once, in order.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Names(Vec<Arc<str>>);

impl Names {
    fn of(names: &[Arc<str>]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|other| (**other).cmp(name)).is_ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }
}
