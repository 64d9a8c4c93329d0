//! What a receiver wants, in a form that is quick to ask.

use campanile_model::action::Runner;
use campanile_model::queue::{Dispatch, Receive};
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
    /// Under which the shares of the priorities are counted: a digest of the targets.
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
        targets.hash(&mut digest);
        let account = digest.finish();
        Self { pools: Names::of(&receive.pools), except: Names::of(&receive.except), targets, account }
    }

    /// Whether it is what waits in this pool for this target.
    pub fn is(&self, pool: &str, target: &str) -> bool {
        (self.pools.is_empty() || self.pools.contains(pool))
            && !self.except.contains(pool)
            && (self.targets.is_empty() || self.targets.contains(target))
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
